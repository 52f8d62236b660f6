"""Scores of parts of a split: by source length (Bahdanau 2015 Figure 2, Luong 2015 Figure 6) and by
the number of unknown source words."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Part(NamedTuple):
    label: str
    sentences: int
    scores: dict[str, float]


def by_length(
    items: Sequence[Any], lengths: Sequence[int], score: Callable[[list[Any]], dict[str, float]]
) -> list[Part]:
    """Steps of 5 words where the split is short, of 10 otherwise; the last is open."""
    step = 5 if max(lengths) <= 40 else 10
    last = 30 if step == 5 else 60
    edges = range(0, last + 1, step)
    parts = []
    for low in edges:
        high = low + step if low < last else max(*lengths, last + 1)
        label = f"{low + 1}–{high}" if low < last else f"over {last}"
        own = [x for x, n in zip(items, lengths, strict=True) if low < n <= high]
        parts.append((label, own))
    return _scored(parts, score)


def by_unknown(
    items: Sequence[Any], unknown: Sequence[int], score: Callable[[list[Any]], dict[str, float]]
) -> list[Part]:
    numbers = {"0": range(1), "1": range(1, 2), "2": range(2, 3), "3 or more": range(3, 10_000)}
    parts = [
        (label, [x for x, n in zip(items, unknown, strict=True) if n in own])
        for label, own in numbers.items()
    ]
    return _scored(parts, score)


def _scored(
    parts: list[tuple[str, list[Any]]], score: Callable[[list[Any]], dict[str, float]]
) -> list[Part]:
    return [Part(label, len(own), score(own)) for label, own in parts if own]
