"""The same examples side by side: predictions and attention weights of all runs.

How much the systems disagree about an example is measured twice:

- The disagreement of predictions is the mean distance between the predictions of two runs. The
  distance of two translations is the Levenshtein distance of their characters, divided by the
  length of the longer one. The distance of two sequences of labels is the fraction of labels that
  differ. The distance of two classes or answers is 1 if they differ, else 0.
- The disagreement of attention is the mean distance between the attention weights of two runs. The
  distance of the weights p and q of a target token is their total variation, ½ Σ |p − q| over the
  source tokens, after normalization to a sum of 1. It is averaged over the target tokens that both
  runs produce, which are those of a longest common subsequence. Texts and cloze questions have one
  row of weights that counts: that of the whole text, or that of the answer.

Both means are over pairs of runs of different systems, or over all pairs if there is one system.
"""

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from rapidfuzz.distance import LCSseq, Levenshtein

from comparing.runs import ComparedRun, ShownExample
from comparing.systems import System
from evaluation.page import AttentionBudget

Distance = Callable[[str, str], float]  # of two predictions: 0 if they are equal, at most 1


def same_examples(runs: Sequence[ComparedRun]) -> bool:
    """Return whether all reports have the same examples, apart from spaces and case.

    Systems with different vocabularies may show different spaces or cases. Runs without examples
    are not compared.
    """

    def texts(run: ComparedRun) -> list[str]:
        every = (" ".join([x.text, *x.references]) for x in run.examples)
        return ["".join(text.split()).casefold() for text in every]

    known = [texts(run) for run in runs if run.examples]
    return bool(known) and all(found == known[0] for found in known)


def compared_examples(
    systems: Sequence[System], most: int, translation: bool, labelling: bool
) -> list[dict[str, Any]]:
    """Return the entries of at most `most` examples, in the order of the corpus.

    If there are more examples, those with the largest disagreement are chosen. Examples with
    attention weights are preferred.
    """
    runs = [run for system in systems for run in system.runs]
    first = next(run for run in runs if run.examples)
    distance = _distance(translation, labelling)
    pairs = list(_pairs(systems))
    entries = []
    for i, example in enumerate(first.examples):
        shown = [_shown_of(run, i) for run in runs]
        scored = [run.examples[i] if run.examples else None for run in runs]
        predictions = [x.prediction if x else None for x in scored]
        entries.append(
            {
                "number": i + 1, "text": example.text, "reference": " | ".join(example.references),
                "predictions": predictions, "shown": shown,
                "correct": [bool(x and x.correct) for x in scored],
                "disagreement": _mean_distance(predictions, pairs, distance),
                "attention": _mean_distance(shown, pairs, _attention_distance(translation)),
                "length": max((len(x.source) for x in shown if x), default=len(example.text)),
            }
        )  # fmt: skip
    chosen = sorted(entries, key=_priority, reverse=True)[:most]
    return _for_page(sorted(chosen, key=lambda entry: entry["number"]))


def _priority(entry: dict[str, Any]) -> tuple[bool, float, float]:
    attended = any(entry["shown"])
    return attended, entry["disagreement"] or 0.0, entry["attention"] or 0.0


def _pairs(systems: Sequence[System]) -> Iterator[tuple[int, int]]:
    """Yield the indices of the pairs of runs whose predictions are compared."""
    of_run = [i for i, system in enumerate(systems) for _ in system.runs]
    for a, b in itertools.combinations(range(len(of_run)), 2):
        if of_run[a] != of_run[b] or len(systems) == 1:
            yield a, b


def _shown_of(run: ComparedRun, i: int) -> ShownExample | None:
    """Return example i of a run's report page; None if the page does not have it."""
    known = run.examples and i < len(run.shown) and run.shown[i].text == run.examples[i].text
    return run.shown[i] if known else None


def _mean_distance(
    of_runs: Sequence[Any],
    pairs: Sequence[tuple[int, int]],
    distance: Callable[[Any, Any], float | None],
) -> float | None:
    """Return the mean distance over the pairs of runs for which it is known, or None."""
    both = ((of_runs[a], of_runs[b]) for a, b in pairs)
    found = (distance(x, y) for x, y in both if x is not None and y is not None)
    known = [value for value in found if value is not None]
    return statistics.mean(known) if known else None


def _distance(translation: bool, labelling: bool) -> Distance:
    if translation:
        return Levenshtein.normalized_distance
    return _label_distance if labelling else lambda a, b: float(a != b)


def _label_distance(first: str, second: str) -> float:
    """Return the fraction of labels that differ."""
    pairs = list(itertools.zip_longest(first.split(" "), second.split(" ")))
    return sum(a != b for a, b in pairs) / len(pairs)


def _attention_distance(
    translation: bool,
) -> Callable[[ShownExample, ShownExample], float | None]:
    def distance(first: ShownExample, second: ShownExample) -> float | None:
        if first.weights is None or second.weights is None or first.source != second.source:
            return None
        rows = np.array([[0, 0]])
        if translation:
            blocks = LCSseq.opcodes(first.target, second.target)
            rows = np.array([
                (block.src_start + k, block.dest_start + k)
                for block in blocks if block.tag == "equal"
                for k in range(block.src_end - block.src_start)
            ])  # fmt: skip
        if not len(rows):
            return None
        p, q = _normalized(first.weights[rows[:, 0]]), _normalized(second.weights[rows[:, 1]])
        return float(np.abs(p - q).sum(axis=1).mean() / 2)

    return distance


def _normalized(weights: np.ndarray) -> np.ndarray:
    totals = weights.sum(axis=1, keepdims=True)
    return weights / np.where(totals > 0, totals, 1)


def _for_page(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the shown examples of all entries by what the page needs to draw them."""
    budget = AttentionBudget()
    for entry in entries:
        # All runs with the same source tokens share one list, which is stored once.
        sources: list[list[str]] = []
        runs = []
        parts = (entry.pop(name) for name in ("predictions", "correct", "shown"))
        for prediction, correct, shown in zip(*parts, strict=True):
            run: dict[str, Any] = {"prediction": prediction, "correct": correct}
            if shown:
                if shown.source not in sources:
                    sources.append(shown.source)
                run |= {"source": sources.index(shown.source), "tokens": shown.target}
                run |= {"gold": shown.gold} if shown.gold else {}
                if shown.weights is not None:
                    run |= budget.take({"attention": shown.weights})
            runs.append(run)
        entry |= {"sources": sources, "runs": runs}
    return entries
