"""Scores of the parts of a split, divided by source length or by number of unknown tokens.

Bahdanau 2015 (Figure 2) and Luong 2015 (Figure 6) show BLEU by source length.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Part(NamedTuple):
    """The scores of one part of a split."""

    label: str
    sentences: int
    scores: dict[str, float]


def by_length(
    items: Sequence[Any], lengths: Sequence[int], score: Callable[[list[Any]], dict[str, float]]
) -> list[Part]:
    """Group the items (sentences) by length in tokens and score each group.

    Bins are 5 tokens wide if no item is longer than 40 tokens, and 10 tokens wide otherwise. The
    last bin is open-ended. Empty bins are left out.
    """
    step = 5 if max(lengths) <= 40 else 10
    last = 30 if step == 5 else 60
    edges = range(0, last + 1, step)
    bins = []
    for low in edges:
        high = low + step if low < last else max(*lengths, last + 1)
        label = f"{low + 1}–{high}" if low < last else f"over {last}"
        bins.append((label, [x for x, n in zip(items, lengths, strict=True) if low < n <= high]))
    return _scored(bins, score)


def by_unknown(
    items: Sequence[Any], unknown: Sequence[int], score: Callable[[list[Any]], dict[str, float]]
) -> list[Part]:
    """Group the items by number of unknown tokens (0, 1, 2, 3 or more) and score each group."""
    numbers = {"0": range(1), "1": range(1, 2), "2": range(2, 3), "3 or more": range(3, 10_000)}
    bins = [
        (label, [x for x, n in zip(items, unknown, strict=True) if n in counts])
        for label, counts in numbers.items()
    ]
    return _scored(bins, score)


def _scored(
    bins: list[tuple[str, list[Any]]], score: Callable[[list[Any]], dict[str, float]]
) -> list[Part]:
    return [Part(label, len(items), score(items)) for label, items in bins if items]
