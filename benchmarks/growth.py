"""Measure how cost grows with the source length, the vocabulary, the batch and the corpus.

    python -m benchmarks.growth

- source: time and working memory of one decoding step of Luong's model with global attention, and
  with local attention, which gathers 2D + 1 positions for any source length;
- vocabulary: time and memory of a training step;
- batch: target tokens per second of a training step;
- corpus: preparing it, its first batch and the rows read per second, in a separate process, whose
  memory must stay constant (`make memory` does the same with five million pairs).

Writes docs/performance/<machine>-growth.json; `python -m benchmarks.report` plots it.
"""

import functools
from pathlib import Path
from typing import Any

import jax

from benchmarks import corpus_memory
from benchmarks.measure import Results, measure, show, wanted
from benchmarks.subjects import Subject, recurrent
from data.vocabulary import PAD
from program import run

ALIGNMENTS = ("global", "local_m", "local_p")
SOURCES = (128, 256, 512, 1024, 2048)
SIZES = {  # layers, features, batch size and dtype of the training steps
    "cpu": (1, 128, 32, "float32"),
    "gpu": (2, 512, 128, "bfloat16"),
}
LENGTH = {"cpu": 20, "gpu": 50}
VOCABULARIES = {"cpu": (1000, 4000, 16_000, 64_000), "gpu": (4000, 16_000, 64_000, 256_000)}
BATCHES = {"cpu": (1, 4, 16, 64), "gpu": (8, 32, 128, 512)}
CORPORA = (10_000, 100_000, 1_000_000)


def of_source(kind: str) -> list[dict[str, Any]]:
    """Measure a decoding step for growing source lengths."""
    layers, features, _, dtype = SIZES[kind]
    rows = []
    for length in SOURCES:
        row: dict[str, Any] = {"source": length}
        for align in ALIGNMENTS:
            subject = recurrent(layers, features, 1000, 32, length, dtype)
            subject.config.unlock().model.attention.align = align
            found = measure(*_decoding_step(subject))
            row |= {f"{align} ms": 1e3 * found.seconds, f"{align} MB": found.working / 1e6}
        rows.append(row)
    return rows


def _decoding_step(subject: Subject) -> tuple[Any, ...]:
    """Return a function that computes one decoding step, and its arguments."""
    task = subject.task()
    params = jax.jit(task.init)(jax.random.key(0))
    source = jax.device_put(subject.sentences())

    def start(params: Any, source: Any) -> tuple[Any, Any]:
        apply = functools.partial(task.model.apply, {"params": params})
        memory = apply(source, source != PAD, method="encode")
        return memory, apply(memory, 1, method="start")

    def step(params: Any, memory: Any, state: Any, words: Any) -> Any:
        variables = {"params": params}
        # Without the attention weights, which are not used.
        return task.model.apply(variables, memory, state, words, method="step")[:2]

    memory, state = jax.jit(start)(params, source)

    return step, params, memory, state, source[:, 0]


def of_vocabulary(kind: str) -> list[dict[str, Any]]:
    """Measure a training step for growing vocabularies."""
    layers, features, batch, dtype = SIZES[kind]
    return [
        {"vocabulary": words}
        | _training_step(recurrent(layers, features, words, batch, LENGTH[kind], dtype))
        for words in VOCABULARIES[kind]
    ]


def of_batch(kind: str) -> list[dict[str, Any]]:
    """Measure a training step for growing batches."""
    layers, features, _, dtype = SIZES[kind]
    return [
        {"batch": batch}
        | _training_step(recurrent(layers, features, 8000, batch, LENGTH[kind], dtype))
        for batch in BATCHES[kind]
    ]


def _training_step(subject: Subject) -> dict[str, float]:
    found = measure(*subject.training_step())
    tokens = subject.batch * subject.length
    return {
        "ms": 1e3 * found.seconds,
        "tokens per second": tokens / found.seconds,
        "working MB": found.working / 1e6,
    }


def of_corpus(kind: str) -> list[dict[str, Any]]:
    """Measure preparing and reading growing corpora."""
    rows = []
    for pairs in CORPORA:
        found = corpus_memory.prepare_and_read(pairs, Path("cache") / "growth")
        rows.append({
            "pairs": pairs,
            "pairs prepared per second": pairs / found["prepare_s"],
            "rows read per second": found["rows"] / found["read_s"],
            "first batch s": found["first_batch_s"],
            "MiB to prepare": found["prepare_mb"],
            "MiB to read": found["read_mb"],
        })  # fmt: skip
    return rows


GROWING = {
    "source": of_source,
    "vocabulary": of_vocabulary,
    "batch": of_batch,
    "corpus": of_corpus,
}


def main() -> None:
    kind = "gpu" if jax.default_backend() == "gpu" else "cpu"
    results = Results("-growth")
    for name in wanted(GROWING):
        rows = GROWING[name](kind)
        results.keep(name, rows)
        print(*map(show, rows), sep="\n", flush=True)


if __name__ == "__main__":
    run(main)
