"""Measure how time and memory grow with source length, vocabulary, batch, beam and corpus size.

    python -m benchmarks.growth

--only selects some of these parts (default: all):

- source: time per decoder time step of Luong's model and temporary memory, for increasing source
  lengths, with global attention and with local attention, which reads 2D + 1 positions for any
  source length;
- training: time and temporary memory of a training step of these models, whose encoders always read
  the whole source;
- vocabulary: time and temporary memory of a training step, for increasing vocabulary sizes;
- batch: time and temporary memory of a training step, for increasing batch sizes;
- beam: time and sentences per second of beam search, for increasing beam widths;
- corpus: the speed of preparing a corpus and of reading its batches, for increasing corpus sizes,
  in a separate process whose memory must stay almost constant (`make memory` does the same with
  five million sentence pairs).

Results are written to docs/performance/<machine>-growth.json; `python -m benchmarks.report` plots
them.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax

from benchmarks import options
from benchmarks.measure import Compiled, Results, format_row, repeated
from benchmarks.subjects import SENTENCES, recurrent
from benchmarks.turns import Prepare, Prepared, Timed, time_in_turn
from data.vocabulary import PAD
from errors import UserError
from models.scan import hoist
from program import run

options.define("only", "out")

ALIGNMENTS = ("global", "local_m", "local_p")
SOURCES = (128, 256, 512, 1024, 2048)
TRAINING_SOURCES = {"cpu": (64, 256, 1024), "gpu": (64, 256, 1024, 4096)}
SIZES = {  # by kind of device: layers, features, batch size and dtype of the training steps
    "cpu": (1, 128, 32, "float32"),
    "gpu": (2, 512, 128, "bfloat16"),
}
LENGTH = {"cpu": 20, "gpu": 50}
VOCABULARY_SIZE = 8000  # where it does not vary
ALIGNED = 32  # batch size where attention types are compared
VOCABULARIES = {"cpu": (1000, 4000, 16_000, 64_000), "gpu": (4000, 16_000, 64_000, 256_000)}
BATCHES = {"cpu": (1, 4, 16, 64), "gpu": (8, 32, 128, 512)}
BEAMS = (1, 2, 5, 10, 20)
STEPS = 50  # number of decoder time steps per call, so that launching the program takes little time
CORPORA = (10_000, 100_000, 1_000_000)


def measure_source_lengths(kind: str) -> list[dict[str, Any]]:
    """Measure time per decoder time step and memory for increasing source lengths."""
    return _compare_alignments(kind, SOURCES, prepare_decoding, STEPS)


def measure_training(kind: str) -> list[dict[str, Any]]:
    """Measure time and memory of one training step for increasing source lengths."""
    return _compare_alignments(kind, TRAINING_SOURCES[kind], prepare_long_source)


def _compare_alignments(
    kind: str, lengths: Iterable[int], prepare: Any, steps: int = 1
) -> list[dict[str, Any]]:
    """Measure `steps` steps with each type of attention for sources of these lengths."""
    found = _time({
        (length, align): functools.partial(prepare, kind, length, align)
        for length in lengths
        for align in ALIGNMENTS
    })  # fmt: skip
    rows = []
    for length in lengths:
        row: dict[str, Any] = {"source length": length}
        for align in ALIGNMENTS:
            seconds, facts = found[length, align]
            row[f"{align} ms"] = 1e3 * seconds / steps
            row[f"{align} temporary MB"] = facts["temporary"] / 1e6
        rows.append(row)
    return rows


def _time(prepares: Mapping[Any, Prepare]) -> dict[Any, Timed]:
    """Time one function per process."""
    names = {key: str(key) for key in prepares}
    timed = time_in_turn({names[key]: prepare for key, prepare in prepares.items()})
    failed = [name for name in names.values() if name not in timed]
    if failed:
        raise UserError(f"{failed[0]} failed: see the message above")
    return {key: timed[name]["step"] for key, name in names.items()}


def prepare_decoding(kind: str, length: int, align: str) -> dict[str, Prepared]:
    """Prepare STEPS decoder time steps, which read the most probable token of the step before."""
    layers, features, _, dtype = SIZES[kind]
    subject = recurrent(layers, features, 1000, ALIGNED, length, dtype)
    subject.config.unlock().model.attention.align = align
    task = subject.task()
    params = jax.jit(task.init)(jax.random.key(0))
    source = jax.device_put(subject.sentences())

    def start(params: Any, source: Any) -> tuple[Any, Any]:
        apply = functools.partial(task.model.apply, {"params": params})
        memory = apply(source, source != PAD, method="encode")
        return memory, apply(memory, 1, method="start")

    def decode(params: Any, memory: Any, state: Any, tokens: Any) -> Any:
        def step(state: Any, tokens: Any) -> Any:
            variables = {"params": params}
            scores, state, _ = task.model.apply(variables, memory, state, tokens, method="step")
            return state, scores.argmax(axis=-1).astype(tokens.dtype)

        step = hoist(step, state, tokens)
        return jax.lax.fori_loop(0, STEPS, lambda _, carry: step(*carry), (state, tokens))

    memory, state = jax.jit(start)(params, source)
    return _prepared(decode, params, memory, state, source[:, 0])


def prepare_long_source(kind: str, length: int, align: str) -> dict[str, Prepared]:
    """Prepare a training step of a model with one layer, for sources of this length."""
    _, features, _, dtype = SIZES[kind]
    subject = recurrent(1, features, 1000, ALIGNED, LENGTH[kind], dtype)
    subject.config.unlock().model.attention.align = align
    step, params, batch, key = subject.training_step()
    source = jax.device_put(subject._replace(length=length).sentences())
    return _prepared(step, params, batch | {"source": source}, key)


def measure_vocabularies(kind: str) -> list[dict[str, Any]]:
    """Measure time and memory of one training step for increasing vocabulary sizes."""
    batch = SIZES[kind][2]
    return _training_steps(
        kind, "vocabulary size", {size: (size, batch) for size in VOCABULARIES[kind]}
    )


def measure_batch_sizes(kind: str) -> list[dict[str, Any]]:
    """Measure time and memory of one training step for increasing batch sizes."""
    return _training_steps(
        kind, "batch size", {size: (VOCABULARY_SIZE, size) for size in BATCHES[kind]}
    )


def _training_steps(
    kind: str, name: str, sizes: Mapping[int, tuple[int, int]]
) -> list[dict[str, Any]]:
    """Measure training steps; `sizes` has the vocabulary size and the batch size of each row."""
    found = _time({
        size: functools.partial(prepare_training_step, kind, vocabulary_size, batch)
        for size, (vocabulary_size, batch) in sizes.items()
    })  # fmt: skip
    return [
        {
            name: size,
            "ms": 1e3 * seconds,
            "tokens per second": sizes[size][1] * LENGTH[kind] / seconds,
            "temporary MB": facts["temporary"] / 1e6,
        }
        for size, (seconds, facts) in found.items()
    ]


def prepare_training_step(kind: str, vocabulary_size: int, batch: int) -> dict[str, Prepared]:
    """Prepare a training step."""
    layers, features, _, dtype = SIZES[kind]
    subject = recurrent(layers, features, vocabulary_size, batch, LENGTH[kind], dtype)
    return _prepared(*subject.training_step())


def measure_beams(kind: str) -> list[dict[str, Any]]:
    """Measure beam search for increasing beam widths."""
    sentences = min(SIZES[kind][2], SENTENCES)
    found = _time({width: functools.partial(prepare_beam, kind, width) for width in BEAMS})
    return [
        {"beam": width, "ms": 1e3 * seconds, "sentences per second": sentences / seconds}
        for width, (seconds, _) in found.items()
    ]


def prepare_beam(kind: str, width: int) -> dict[str, Prepared]:
    """Prepare a beam search."""
    layers, features, batch, dtype = SIZES[kind]
    subject = recurrent(layers, features, VOCABULARY_SIZE, batch, LENGTH[kind], dtype)
    return {"step": Prepared(repeated(subject.beam_search(width)))}


def _prepared(function: Callable, *arguments: Any) -> dict[str, Prepared]:
    """Compile a training step or decoding of a recurrent model for these arguments."""
    compiled = Compiled.of(function, *arguments, concurrent=True)
    call = functools.partial(compiled.function, *arguments)
    return {"step": Prepared(repeated(call), {"temporary": compiled.temporary})}


def measure_corpora(kind: str) -> list[dict[str, Any]]:
    """Measure the preparation and reading of increasingly large corpora."""
    from benchmarks import corpus_memory  # needs packages that no other part needs

    rows = []
    for pairs in CORPORA:
        found = corpus_memory.prepare_and_read(pairs, Path("cache") / "growth")
        rows.append({
            "sentence pairs": pairs,
            "pairs prepared per second": pairs / found["prepare_s"],
            "rows read per second": found["rows"] / found["read_s"],
            "seconds to first batch": found["first_batch_s"],
            "peak MiB, preparing": found["prepare_mb"],
            "MiB, reading": found["read_mb"],
        })  # fmt: skip
    return rows


MEASUREMENTS = {
    "source": measure_source_lengths,
    "training": measure_training,
    "vocabulary": measure_vocabularies,
    "batch": measure_batch_sizes,
    "beam": measure_beams,
    "corpus": measure_corpora,
}


def main() -> None:
    """Measure the selected parts on this machine, and write and print the results."""
    kind = "gpu" if jax.default_backend() == "gpu" else "cpu"
    results = Results("-growth")
    for name in options.selected_parts(MEASUREMENTS):
        rows = MEASUREMENTS[name](kind)
        results.add(name, rows)
        print(*map(format_row, rows), sep="\n", flush=True)


if __name__ == "__main__":
    run(main)
