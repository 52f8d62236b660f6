"""Alignment error rate: how well attention agrees with word links that people have annotated."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Link = tuple[int, int]  # 0-based indices of the source word and the target word


class Gold(NamedTuple):
    """The annotated links of one sentence pair."""

    sure: set[Link]
    possible: set[Link]  # all links: the sure links and those marked with "?"


def parse_links(text: str) -> Gold:
    """Parse links in Pharaoh notation: `2-3` is a sure link, `2?3` a possible one."""
    sure, possible = set(), set()
    for item in text.split():
        source, target = map(int, item.replace("?", "-").split("-"))
        possible.add((source, target))
        if "?" not in item:
            sure.add((source, target))
    return Gold(sure, possible)


def attention_links(
    attention: Float[np.ndarray, "t s"], source_words: list[int], target_words: list[int]
) -> set[Link]:
    """Link each target word to the source word that it attends to most.

    `source_words` and `target_words` contain the word index of every token before </s>. The
    token </s> is never linked. The attention weight between two words is the sum over all pairs of
    their tokens.
    """
    end = max(source_words, default=-1) + 1  # index of </s>, which follows the last source word
    words = sorted(set(target_words))
    tokens = np.equal.outer(words, target_words).astype(float)  # 1 if token j is in target word i
    of_word = np.eye(end + 1)[[*source_words, end]]  # 1 if token i is in source word j
    sums = tokens @ attention[: len(target_words), : len(of_word)] @ of_word
    heaviest = sums.argmax(axis=1)
    return {
        (int(s), t) for s, t, row in zip(heaviest, words, sums, strict=True) if s < end and row[s]
    }


def alignment_error_rate(guesses: Iterable[set[Link]], golds: Iterable[Gold]) -> float:
    """Compute AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|) over a corpus (Och & Ney 2003).

    A are the links in `guesses`, S the sure links and P the possible links in `golds`.
    """
    hits = total = 0
    for guess, gold in zip(guesses, golds, strict=True):
        hits += len(guess & gold.sure) + len(guess & gold.possible)
        total += len(guess) + len(gold.sure)
    return 1 - hits / max(1, total)
