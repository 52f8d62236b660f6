"""Alignment error: does attention look at the words that a person would link?"""

import itertools
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from data.tokenizers import JOINER

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


def words_of_tokens(tokens: list[str], words: list[str]) -> list[int]:
    """For each token, be it a word or a piece of one, the number of the word it begins in.

    Both come from one text, so their characters are the same, but for spaces, the marks of pieces
    and Unicode's compatibility forms. Where a tokenizer changed more, places are in proportion.
    """
    owners = [i for i, word in enumerate(words) for _ in _bare(word)] or [0]
    lengths = [len(_bare(token)) for token in tokens]
    scale = len(owners) / max(1, sum(lengths))
    starts = [0, *itertools.accumulate(lengths)][:-1]
    return [owners[min(int(start * scale), len(owners) - 1)] for start in starts]


def _bare(token: str) -> str:
    token = token.removeprefix(JOINER).removeprefix("▁").removesuffix("@@")
    return "".join(unicodedata.normalize("NFKC", token).split())


def attention_links(
    attention: np.ndarray, source_words: list[int], target_words: list[int]
) -> set[Link]:
    """Each target word to the source word it attends to most; </s> on either side has no links.

    Of words in pieces, weights are summed over the source's pieces and averaged over the target's.
    """
    end = max(source_words, default=-1) + 1  # </s> is a word by itself
    words = sorted(set(target_words))
    pieces = np.equal.outer(words, target_words).astype(float)  # of each target word
    of_word = np.eye(end + 1)[[*source_words, end]]
    sums = pieces @ attention[: len(target_words), : len(of_word)] @ of_word
    heaviest = sums.argmax(axis=1)  # of a sum as of a mean
    return {
        (int(s), t) for s, t, row in zip(heaviest, words, sums, strict=True) if s < end and row[s]
    }


def alignment_error_rate(guesses: Iterable[set[Link]], golds: Iterable[Gold]) -> float:
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), over a whole corpus (Och & Ney 2003)."""
    hits = total = 0
    for guess, gold in zip(guesses, golds, strict=True):
        hits += len(guess & gold.sure) + len(guess & gold.possible)
        total += len(guess) + len(gold.sure)
    return 1 - hits / max(1, total)
