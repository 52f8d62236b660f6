"""Subword sampling: random segmentations of the training text, drawn anew for every batch.

For a unigram model, a segmentation x of a word is drawn with a probability proportional to p(x)^α,
among all segmentations (Kudo 2018 with l = ∞). For a BPE model, every possible merge is dropped
with a fixed probability before each merge (Provilkov 2020).

SentencePiece's sampling uses one generator per thread and has no seed per call, so its samples
would depend on the number of threads. Here, the segmentation of a word is a function of uniform
random numbers, and these are a function of the seed, the training step and the place of the word
in the batch.

No text is stored: subwords do not cross spaces, so the stored token ids of the best segmentation
contain the words, and a word is segmented independently of its neighbors.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from data.segmentation import BPEDropout, Pieces, UnigramSampling, ragged
from data.store import Split, axes
from data.tokenizers import SPACE
from data.vocabulary import EOS, SPECIALS, SentencePieceVocabulary

logger = logging.getLogger("alignax")
PLANNED_ROWS = 1000  # number of examples from which the lengths of samples are estimated
SPREAD = 0.5  # room for longer samples, in standard deviations above the mean
CACHED = 1 << 23  # values in the cache of words at which the cache is emptied
SEGMENTATIONS: dict[str, type[UnigramSampling] | type[BPEDropout]] = {
    "unigram": UnigramSampling,
    "bpe": BPEDropout,
}


class Words(NamedTuple):
    """The words of a table of token ids, in the order of the flattened table."""

    start: np.ndarray  # index of the first token
    count: np.ndarray  # number of tokens
    row: np.ndarray


class SubwordSampler:
    """Replaces the best segmentation of each word of a batch by a random one.

    A sample may have more tokens than the best segmentation, so `plan_lengths` leaves room for
    longer rows. In a row that would still be too long, each word whose sample does not fit keeps
    its best segmentation.
    """

    def __init__(self, vocabulary: SentencePieceVocabulary, kind: str, strength: float, most: int):
        """`kind` is a key of SEGMENTATIONS; `most` is the largest number of tokens of a row."""
        self.most = most
        self._pieces, self._kind, self._strength = Pieces(vocabulary), kind, strength
        self._begins = np.array([text.startswith(SPACE) for text in self._pieces.texts])
        self._begins[EOS] = True
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        """Begin with an empty cache of words."""
        self._segmentation = SEGMENTATIONS[self._kind](self._pieces, self._strength)
        self._numbers: dict[bytes, int] = {}  # maps the tokens of a word to its number

    def resample(
        self, table: np.ndarray, seed: Sequence[int], first: int = 0, rows: int = 0
    ) -> np.ndarray:
        """Return new segmentations of a zero-padded table of rows, with the same shape.

        The table contains the rows first, first + 1, ... of a batch that has `rows` rows (default:
        those of the table). The result depends only on the batch and the seed.
        """
        generator, height = np.random.default_rng(seed), len(table)
        words = self._words(table)

        def draw() -> np.ndarray:
            numbers = generator.random((rows or height, table.shape[1]))
            return numbers[first : first + height].ravel()[places]

        with self._lock:  # several threads make batches, and the cache of words grows
            if self._segmentation.size > CACHED:
                self._forget()
            numbers = self._number(table, words)
            chosen = np.flatnonzero(numbers >= 0)
            places = words.start[chosen]
            samples = self._segmentation.sample(numbers[chosen], draw)
        # Words that are not segmented, or whose samples do not fit, keep their tokens.
        start, count = words.start + len(samples.tokens), words.count.copy()
        start[chosen], count[chosen] = samples.start, samples.count
        kept = _too_long(words, count, table.shape)
        start[kept], count[kept] = words.start[kept] + len(samples.tokens), words.count[kept]
        tokens = np.concatenate([samples.tokens, table.ravel()])[ragged(start, count)]
        found, lengths = np.zeros_like(table), np.bincount(words.row, count, minlength=height)
        found[np.arange(table.shape[1]) < lengths[:, None]] = tokens
        return found

    def _words(self, table: np.ndarray) -> Words:
        used = table != 0
        begins = self._begins[table] & used
        begins[:, 0] = used[:, 0]
        start = np.flatnonzero(begins)
        row = start // table.shape[1]
        ends = row * table.shape[1] + np.count_nonzero(used, axis=1)[row]
        return Words(start, np.minimum(np.append(start[1:], table.size), ends) - start, row)

    def _number(self, table: np.ndarray, words: Words) -> np.ndarray:
        """Return the number of each word in the cache, to which new words are added; −1: none."""
        tokens, size = table.tobytes(), table.itemsize
        begins, ends = words.start * size, (words.start + words.count) * size
        keys = [tokens[i:j] for i, j in zip(begins.tolist(), ends.tolist(), strict=True)]
        for key in {*keys}.difference(self._numbers):
            ids = np.frombuffer(key, table.dtype).tolist()
            text = "".join([self._pieces.texts[i] for i in ids])
            # Special tokens are not segmented, nor are words with unknown characters.
            special = min(ids) < len(SPECIALS)
            self._numbers[key] = -1 if special else self._segmentation.add(text)
        return np.array([self._numbers[key] for key in keys], int)


def _too_long(words: Words, count: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return which words keep their best segmentation, because `count` tokens do not fit."""
    kept = np.zeros(len(count), bool)
    added = count - words.count
    room = shape[1] - np.bincount(words.row, words.count, minlength=shape[0])
    for row in np.flatnonzero(np.bincount(words.row, added, minlength=shape[0]) > room):
        free = room[row]
        for word in np.flatnonzero(words.row == row):
            kept[word] = added[word] > free
            free -= 0 if kept[word] else added[word]
    return kept


def plan_lengths(split: Split, samplers: Mapping[str, SubwordSampler]) -> np.ndarray:
    """Return the lengths of all examples, with room for samples that have more tokens.

    The mean and the variance of the number of additional tokens, both proportional to the number
    of tokens, are estimated from samples of some examples. The room is SPREAD standard deviations
    larger than the mean, but no row gets more than `SubwordSampler.most` tokens.
    """
    lengths = split.lengths.copy()
    chosen = np.arange(0, len(split), max(1, len(split) // PLANNED_ROWS))
    for name, sampler in samplers.items():
        column = axes(split.fields).index(name)
        before = split.lengths[:, column]
        table = split.padded(chosen, [sampler.most] * lengths.shape[1])[name]
        best = before[chosen]
        added = np.count_nonzero(sampler.resample(table, (0,)), axis=1) - best
        mean = added.sum() / best.sum()
        variance = np.mean((added - mean * best) ** 2 / best)
        room = np.ceil(before * mean + SPREAD * np.sqrt(before * variance)).astype(int)
        lengths[:, column] = np.clip(before + room, before, sampler.most)
        logger.info(
            "subword sampling: the samples of %s have %.2f times as many tokens as the best "
            "segmentation; the batches have room for %.2f times as many",
            name, 1 + mean, lengths[:, column].sum() / before.sum(),
        )  # fmt: skip
    return lengths
