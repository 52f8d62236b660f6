"""Random segmentations of words into subwords, for many words at once.

`UnigramSampling` and `BPEDropout` have the same two methods. `add(text)` computes what is needed to
segment a word, and returns the number of the word, or −1 if it contains unknown characters.
`sample(words, draw)` segments the words with the given numbers. `draw()` returns one uniform random
number in [0, 1) per word, and is called until all words are segmented. The result is a `Samples`.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from data.vocabulary import SPECIALS, SentencePieceVocabulary, all_tokens

Draw = Callable[[], np.ndarray]


class Pieces:
    """The subwords of a SentencePiece model; special tokens have no entry in `ids`."""

    def __init__(self, vocabulary: SentencePieceVocabulary):
        self.texts = all_tokens(vocabulary)
        self.scores = [vocabulary.score(i) for i in range(len(vocabulary))]
        self.ids = {text: i for i, text in enumerate(self.texts) if i >= len(SPECIALS)}
        self.longest = max(map(len, self.ids))


# Probability 1 as an integer. With integers, a sample does not depend on the number of its nodes,
# that is, on the words that were added before; floating-point numbers would be rounded.
_ONE = 1 << 38


class Samples(NamedTuple):
    """Segmentations of words: tokens, and for each word the index and the number of its tokens."""

    tokens: np.ndarray
    start: np.ndarray
    count: np.ndarray


class UnigramSampling:
    """Draws a segmentation x of a word with a probability proportional to p(x)^alpha.

    Every position of a word is a node, and every subword that begins there is an edge to the node
    after it. A sample is a random walk through this graph.
    """

    def __init__(self, pieces: Pieces, alpha: float):
        self._pieces, self._alpha = pieces, alpha
        self._nodes = 0
        # An edge of node n is chosen by a random number below its bound − n · _ONE. The bound is
        # n · _ONE plus the cumulative probability, so the bounds of all edges are sorted.
        self._bounds = _Growing(np.int64)
        self._targets = _Growing(np.int64)  # −1: the end of the word
        self._tokens = _Growing(np.int32)
        self._last = _Growing(np.int64)  # per node: its last edge

    @property
    def size(self) -> int:
        """The number of stored values."""
        return self._bounds.size

    def add(self, text: str) -> int:
        edges, log_sums = self._lattice(text)
        if log_sums[0] == -math.inf:
            return -1
        first, bounds, targets, tokens, last = self._nodes, [], [], [], []
        for i, following in enumerate(edges):
            # The probability of a subword that ends at j is proportional to p(subword)^alpha,
            # times the sum of p(x)^alpha over all segmentations x of the characters after j.
            shares = [math.exp(log_p + log_sums[j] - log_sums[i]) for j, _, log_p in following]
            whole = (min(round(share * _ONE), _ONE) for share in itertools.accumulate(shares))
            bounds += [(first + i) * _ONE + bound for bound in whole]
            targets += [first + j if j < len(text) else -1 for j, _, _ in following]
            tokens += [piece for _, piece, _ in following]
            last.append(self._bounds.size + len(bounds) - 1)
        self._nodes += len(text)
        self._bounds.extend(bounds)
        self._targets.extend(targets)
        self._tokens.extend(tokens)
        self._last.extend(last)
        return first

    def _lattice(self, text: str) -> tuple[list[list[tuple[int, int, float]]], list[float]]:
        """Return the edges of every position, and log Σ p(x)^alpha over the rest of the word.

        An edge is the end of a subword, its id and alpha · log p. The sum is over all segmentations
        x of the characters from this position to the end of the word.
        """
        ids, scores, end = self._pieces.ids, self._pieces.scores, len(text)
        edges, log_sums = [], [-math.inf] * end + [0.0]
        for i in reversed(range(end)):
            ends = range(i + 1, min(i + self._pieces.longest, end) + 1)
            found = [(j, piece) for j in ends if (piece := ids.get(text[i:j])) is not None]
            following = [
                (j, piece, self._alpha * scores[piece])
                for j, piece in found
                if log_sums[j] > -math.inf
            ]
            if following:
                logs = [log_p + log_sums[j] for j, _, log_p in following]
                log_sums[i] = max(logs) + math.log(sum(math.exp(x - max(logs)) for x in logs))
            edges.append(following)
        return edges[::-1], log_sums

    def sample(self, words: np.ndarray, draw: Draw) -> Samples:
        nodes, walkers = words, np.arange(len(words))
        moves = [(walkers[:0], walkers[:0])]
        while len(walkers):
            keys = nodes * _ONE + (draw()[walkers] * _ONE).astype(np.int64)
            edges = np.searchsorted(self._bounds.values, keys, side="right")
            # The sum of a node's probabilities may be slightly less than 1.
            edges = np.minimum(edges, self._last.values[nodes])
            moves.append((walkers, edges))
            nodes = self._targets.values[edges]
            walkers, nodes = walkers[nodes >= 0], nodes[nodes >= 0]
        walkers, edges = (np.concatenate(parts) for parts in zip(*moves, strict=True))
        order = np.argsort(walkers, kind="stable")
        count = np.bincount(walkers, minlength=len(words))
        return Samples(self._tokens.values[edges[order]], np.cumsum(count) - count, count)


class BPEDropout:
    """Merges the characters of a word to subwords, and drops possible merges before each merge.

    Each possible merge is dropped with probability `rate`, and the one with the highest score of
    the others is applied, until all are dropped (Provilkov 2020, Algorithm 1). The states that a
    word passes through before the first drop are stored, because most words drop few merges.
    """

    def __init__(self, pieces: Pieces, rate: float):
        self._pieces, self._rate = pieces, rate
        longer = [text for text in pieces.ids if len(text) > 1]
        # Merges with a smaller priority value come first; the value is an index of `_results`.
        self._results = np.array(sorted(map(pieces.ids.__getitem__, longer), key=self._by_score))
        priorities = {piece: i for i, piece in enumerate(self._results.tolist())}
        self._pairs = pairs = {
            self._key(pieces.ids[text[:i]], pieces.ids[text[i:]]): priorities[pieces.ids[text]]
            for text in longer
            for i in range(1, len(text))
            if text[:i] in pieces.ids and text[i:] in pieces.ids
        }
        self._keys = np.array([*sorted(pairs), np.iinfo(np.int64).max])
        self._priorities = np.array([*(pairs[key] for key in sorted(pairs)), len(priorities)])
        self._first, self._merges = _Growing(np.int64), _Growing(np.int64)  # per word
        self._start, self._count = _Growing(np.int64), _Growing(np.int64)  # per state
        self._tokens = _Growing(np.int32)

    @property
    def size(self) -> int:
        """The number of stored values."""
        return self._tokens.size

    def add(self, text: str) -> int:
        if any(character not in self._pieces.ids for character in text):
            return -1
        states = [[self._pieces.ids[character] for character in text]]
        while pairs := [*map(self._pair_priority, states[-1][:-1], states[-1][1:])]:
            priority = min(pairs)
            if priority == len(self._results):
                break
            ids, position = states[-1], pairs.index(priority)
            states.append([*ids[:position], int(self._results[priority]), *ids[position + 2 :]])
        self._first.extend([self._start.size])
        self._merges.extend([len(states) - 1])
        counts = [len(state) for state in states]
        self._start.extend([self._tokens.size + i for i in itertools.accumulate([0, *counts[:-1]])])
        self._count.extend(counts)
        self._tokens.extend([*itertools.chain.from_iterable(states)])
        return self._first.size - 1

    def sample(self, words: np.ndarray, draw: Draw) -> Samples:
        merges = self._merges.values[words]
        kept = _successes(draw(), 1 - self._rate)  # number of merges before the first drop
        state = self._first.values[words] + np.minimum(kept, merges)
        start, count = self._start.values[state], self._count.values[state]
        tokens = self._tokens.values[ragged(start, count)]
        start = np.cumsum(count) - count
        changed = np.flatnonzero(kept < merges)
        if len(changed):
            ids = np.zeros((len(changed), count[changed].max()), np.int32)
            ids[np.arange(ids.shape[1]) < count[changed, None]] = tokens[
                ragged(start[changed], count[changed])
            ]
            ids = self._continue(ids, lambda: draw()[changed])
            start[changed] = len(tokens) + np.arange(len(ids)) * ids.shape[1]
            count[changed] = np.count_nonzero(ids, axis=1)
            tokens = np.concatenate([tokens, ids.ravel()])
        return Samples(tokens, start, count)

    def _continue(self, ids: np.ndarray, draw: Draw) -> np.ndarray:
        """Return segmentations that begin with `ids` and drop the first possible merge."""
        found, rows, least = np.zeros_like(ids), np.arange(len(ids)), 1
        priority = self._priority(ids[:, :-1], ids[:, 1:])
        while len(rows):
            dropped = least + _successes(draw()[rows], self._rate)
            least = 0
            ends = dropped >= np.count_nonzero(priority < len(self._results), axis=1)
            found[rows[ends], : ids.shape[1]] = ids[ends]
            rows, ids, priority, dropped = (x[~ends] for x in (rows, ids, priority, dropped))
            if len(rows):
                order = np.argsort(priority, axis=1, kind="stable")
                position = order[np.arange(len(rows)), dropped]
                ids, priority = self._merge(ids, priority, position)
        return found

    def _merge(
        self, ids: np.ndarray, priority: np.ndarray, position: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Merge the tokens at `position` and `position` + 1 of every row; the rows get shorter."""
        rows = np.arange(len(ids))
        ids = ids.copy()
        ids[rows, position] = self._results[priority[rows, position]]
        column = np.arange(ids.shape[1] - 1)
        ids = np.take_along_axis(ids, column + (column > position[:, None]), axis=1)
        column = column[:-1]
        priority = np.take_along_axis(priority, column + (column >= position[:, None]), axis=1)
        for left in (position - 1, position):
            valid = (left >= 0) & (left < len(column))
            row, left = rows[valid], left[valid]
            priority[row, left] = self._priority(ids[row, left], ids[row, left + 1])
        return ids, priority

    def _priority(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the priority of merging two tokens, or len(results) if they cannot be merged."""
        keys = self._key(left.astype(np.int64), right)
        found = np.searchsorted(self._keys, keys)
        return np.where(self._keys[found] == keys, self._priorities[found], len(self._results))

    def _pair_priority(self, left: int, right: int) -> int:
        return self._pairs.get(self._key(left, right), len(self._results))

    def _key(self, left: Any, right: Any) -> Any:
        return left * len(self._pieces.texts) + right

    def _by_score(self, piece: int) -> float:
        return -self._pieces.scores[piece]


def _successes(numbers: np.ndarray, probability: float) -> np.ndarray:
    """Return how many trials succeed before the first failure, given uniform random numbers."""
    return (np.log1p(-numbers) / math.log(probability)).astype(np.int64)


class _Growing:
    """A one-dimensional array that grows at its end."""

    def __init__(self, dtype: DTypeLike):
        self._room, self.size = np.zeros(1024, dtype), 0

    @property
    def values(self) -> np.ndarray:
        return self._room[: self.size]

    def extend(self, values: Any) -> None:
        end = self.size + len(values)
        if end > len(self._room):
            self._room = np.concatenate([self.values, np.zeros(end, self._room.dtype)])
        self._room[self.size : end] = values
        self.size = end


def ragged(start: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the indices start[i], ..., start[i] + count[i] − 1 for all i, one after another."""
    return np.repeat(start - np.cumsum(count) + count, count) + np.arange(count.sum())
