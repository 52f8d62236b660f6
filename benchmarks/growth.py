"""Measure how time and memory grow with source length, vocabulary, batch, beam and corpus size.

    python -m benchmarks.growth

--only selects some of these parts (default: all):

- source: time and temporary memory of one decoder time step of Luong's model, for increasing source
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax

from benchmarks.measure import Results, format_row, measure, seconds_per_call, selected_parts
from benchmarks.speed import beam_search
from benchmarks.subjects import SENTENCES, Subject, recurrent
from data.vocabulary import PAD
from program import run

ALIGNMENTS = ("global", "local_m", "local_p")
SOURCES = (128, 256, 512, 1024, 2048)
TRAINING_SOURCES = {"cpu": (64, 256, 1024), "gpu": (64, 256, 1024, 4096)}
SIZES = {  # by kind of device: layers, features, batch size and dtype of the training steps
    "cpu": (1, 128, 32, "float32"),
    "gpu": (2, 512, 128, "bfloat16"),
}
LENGTH = {"cpu": 20, "gpu": 50}
VOCABULARIES = {"cpu": (1000, 4000, 16_000, 64_000), "gpu": (4000, 16_000, 64_000, 256_000)}
BATCHES = {"cpu": (1, 4, 16, 64), "gpu": (8, 32, 128, 512)}
BEAMS = (1, 2, 5, 10, 20)
CORPORA = (10_000, 100_000, 1_000_000)


def measure_source_lengths(kind: str) -> list[dict[str, Any]]:
    """Measure time and memory of one decoder time step for increasing source lengths."""
    layers, features, _, dtype = SIZES[kind]
    subject = recurrent(layers, features, 1000, 32, LENGTH[kind], dtype)
    return _compare_alignments(subject, SOURCES, _decoding_step)


def measure_training(kind: str) -> list[dict[str, Any]]:
    """Measure time and memory of one training step for increasing source lengths."""
    _, features, _, dtype = SIZES[kind]
    subject = recurrent(1, features, 1000, 32, LENGTH[kind], dtype)
    return _compare_alignments(subject, TRAINING_SOURCES[kind], _long_source_step)


def _compare_alignments(
    subject: Subject, lengths: Iterable[int], make_step: Callable[[Subject, Any], tuple]
) -> list[dict[str, Any]]:
    """Measure a step of each type of attention for sources of these lengths."""
    rows = []
    for length in lengths:
        row: dict[str, Any] = {"source length": length}
        source = jax.device_put(subject._replace(length=length).sentences())
        for align in ALIGNMENTS:
            subject.config.unlock().model.attention.align = align
            found = measure(*make_step(subject, source))
            row |= {
                f"{align} ms": 1e3 * found.seconds,
                f"{align} temporary MB": found.temporary / 1e6,
            }
        rows.append(row)
    return rows


def _long_source_step(subject: Subject, source: Any) -> tuple[Any, ...]:
    """Return a training step for this source, and its arguments."""
    step, params, batch, key = subject.training_step()
    return step, params, batch | {"source": source}, key


def _decoding_step(subject: Subject, source: Any) -> tuple[Any, ...]:
    """Return a function that computes one decoder time step, and the arguments for the function."""
    task = subject.task()
    params = jax.jit(task.init)(jax.random.key(0))

    def start(params: Any, source: Any) -> tuple[Any, Any]:
        apply = functools.partial(task.model.apply, {"params": params})
        memory = apply(source, source != PAD, method="encode")
        return memory, apply(memory, 1, method="start")

    def step(params: Any, memory: Any, state: Any, tokens: Any) -> Any:
        variables = {"params": params}
        # [:2] drops the attention weights, so that the compiled program does not return them.
        return task.model.apply(variables, memory, state, tokens, method="step")[:2]

    memory, state = jax.jit(start)(params, source)

    return step, params, memory, state, source[:, 0]


def measure_vocabularies(kind: str) -> list[dict[str, Any]]:
    """Measure time and memory of one training step for increasing vocabulary sizes."""
    layers, features, batch, dtype = SIZES[kind]
    return [
        {"vocabulary size": words}
        | _training_step(recurrent(layers, features, words, batch, LENGTH[kind], dtype))
        for words in VOCABULARIES[kind]
    ]


def measure_batch_sizes(kind: str) -> list[dict[str, Any]]:
    """Measure time and memory of one training step for increasing batch sizes."""
    layers, features, _, dtype = SIZES[kind]
    return [
        {"batch size": batch}
        | _training_step(recurrent(layers, features, 8000, batch, LENGTH[kind], dtype))
        for batch in BATCHES[kind]
    ]


def _training_step(subject: Subject) -> dict[str, float]:
    found = measure(*subject.training_step())
    tokens = subject.batch * subject.length
    return {
        "ms": 1e3 * found.seconds,
        "tokens per second": tokens / found.seconds,
        "temporary MB": found.temporary / 1e6,
    }


def measure_beams(kind: str) -> list[dict[str, Any]]:
    """Measure beam search for increasing beam widths."""
    layers, features, batch, dtype = SIZES[kind]
    subject = recurrent(layers, features, 8000, batch, LENGTH[kind], dtype)
    rows = []
    for width in BEAMS:
        seconds = seconds_per_call(beam_search(subject, width), jax.block_until_ready)
        sentences = min(batch, SENTENCES) / seconds
        rows.append({"beam": width, "ms": 1e3 * seconds, "sentences per second": sentences})
    return rows


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
    for name in selected_parts(MEASUREMENTS):
        rows = MEASUREMENTS[name](kind)
        results.add(name, rows)
        print(*map(format_row, rows), sep="\n", flush=True)


if __name__ == "__main__":
    run(main)
