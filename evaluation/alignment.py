"""Alignment error: does attention look at the words that a person would link?"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

Link = tuple[int, int]  # source word, target word, counted from 0


class Gold(NamedTuple):
    sure: set[Link]
    possible: set[Link]  # sure ones included


def parse_links(text: str) -> Gold:
    """Pharaoh notation: `2-3` is sure, `2?3` possible."""
    sure, possible = set(), set()
    for item in text.split():
        source, target = map(int, item.replace("?", "-").split("-"))
        possible.add((source, target))
        if "?" not in item:
            sure.add((source, target))
    return Gold(sure, possible)


def attention_links(attention: np.ndarray) -> set[Link]:
    """Each target word to the source word it attends to most; </s> on either side has no links."""
    words = attention[:-1]
    heaviest = words.argmax(axis=1)
    return {
        (int(s), t)
        for t, s in enumerate(heaviest)
        if s < attention.shape[1] - 1 and words[t, s] > 0
    }


def alignment_error_rate(guesses: Iterable[set[Link]], golds: Iterable[Gold]) -> float:
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), over a whole corpus (Och & Ney 2003)."""
    hits = total = 0
    for guess, gold in zip(guesses, golds, strict=True):
        hits += len(guess & gold.sure) + len(guess & gold.possible)
        total += len(guess) + len(gold.sure)
    return 1 - hits / max(1, total)
