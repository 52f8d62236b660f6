"""Batches of fixed shapes, as a function of the step.

Examples of similar length share a bucket; a bucket has one shape, so the step is compiled once a
bucket. Which examples make batch n is a function of (seed, n) alone: a resumed run, and a run on
another number of hosts, reads on where the first one stopped, and the position that a checkpoint
has to keep is one number.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grain
import numpy as np

from data.store import Fields, Split, shapes

Batch = dict[str, np.ndarray]
LEVELS = 512  # sizes that are told apart when buckets are planned


class Bucket(NamedTuple):
    """The shape of a bucket's batches: rows, and the lengths of the axes that have names."""

    rows: int
    lengths: tuple[int, ...]


def plan_buckets(
    fields: Fields, lengths: np.ndarray, count: int, batch_size: int, unit: str, multiple: int
) -> tuple[list[Bucket], np.ndarray]:
    """At most `count` buckets with the fewest padded tokens, and the bucket of every example.

    Examples are ordered by their largest field; the cuts between buckets minimise the total size of
    all batches, empty rows of the last one included, by dynamic programming over the distinct sizes
    (roughly, where there are more than LEVELS): few examples have few buckets. `batch_size` counts
    examples, or tokens of the largest field with padding; rows are rounded down to a `multiple`.
    """
    size = _tokens(fields, lengths).max(axis=1)
    levels, level_of = np.unique(size, return_inverse=True)
    if len(levels) > LEVELS:
        level_of = level_of * LEVELS // len(levels)
    examples = np.bincount(level_of)
    widest = np.zeros((len(examples), lengths.shape[1]), int)
    np.maximum.at(widest, level_of, lengths)

    def rows_of(tokens: np.ndarray) -> np.ndarray:
        """Rows of the batches in which an example's fields have so many tokens [n, fields]."""
        rows = batch_size // (1 if unit == "sentences" else np.maximum(1, tokens.max(axis=1)))
        return np.maximum(1, rows // multiple) * multiple

    def padded(first: int) -> np.ndarray:
        """Padded tokens of one bucket over levels first..last, for every last."""
        tokens = _tokens(fields, np.maximum.accumulate(widest[first:]))
        rows = rows_of(tokens)
        return -(-np.cumsum(examples[first:]) // rows) * rows * tokens.sum(axis=1)

    spans = _cheapest_spans(len(examples), count, padded)
    widths = np.stack([widest[first : last + 1].max(axis=0) for first, last in spans])
    rows = np.broadcast_to(rows_of(_tokens(fields, widths)), len(spans))
    buckets = [Bucket(int(n), tuple(map(int, own))) for n, own in zip(rows, widths, strict=True)]
    ends = np.array([last for _, last in spans])
    return buckets, np.searchsorted(ends, level_of)


def _tokens(fields: Fields, lengths: np.ndarray) -> np.ndarray:
    """The size [n, fields] of every field that has an axis with a name, a vector counting once."""
    ones = {
        name: field._replace(axes=tuple(a if isinstance(a, str) else 1 for a in field.axes))
        for name, field in fields.items()
        if any(isinstance(axis, str) for axis in field.axes)
    }
    columns = shapes(ones, list(lengths.T))
    return np.stack([np.prod(np.broadcast_arrays(*sides), axis=0) for sides in columns.values()], 1)


def _cheapest_spans(
    levels: int, count: int, cost_from: Callable[[int], np.ndarray]
) -> list[tuple[int, int]]:
    """First and last level of at most `count` spans over all levels with the least total cost."""
    cost = np.stack([np.concatenate([np.full(i, np.inf), cost_from(i)]) for i in range(levels)])
    best, cuts, costs = cost[0], [], [cost[0, -1]]  # costs: of all levels, by the number of spans
    for _ in range(min(count, levels) - 1):
        # total[i, j]: the best so far ends before level i, one more span is i..j
        total = np.concatenate([[np.inf], best[:-1]])[:, None] + cost
        cuts.append(total.argmin(axis=0))
        best = total.min(axis=0)
        costs.append(best[-1])
    last, spans = levels - 1, []
    for cut in reversed(cuts[: int(np.argmin(costs))]):
        spans.append((int(cut[last]), last))
        last = int(cut[last]) - 1
    return [(0, last), *reversed(spans)]


class Batches:
    """Training batches without end, by number. Every epoch holds every example once."""

    def __init__(
        self,
        split: Split,
        buckets: list[Bucket],
        bucket_of: np.ndarray,
        seed: int = 0,
        host: int = 0,
        hosts: int = 1,
    ):
        self.buckets = buckets
        self._split, self._seed, self._host, self._hosts = split, seed, host, hosts
        self._members = [np.flatnonzero(bucket_of == b) for b in range(len(buckets))]
        self.steps_per_epoch = sum(
            -(-len(members) // bucket.rows)
            for members, bucket in zip(self._members, buckets, strict=True)
        )
        self._plan = functools.lru_cache(maxsize=2)(self._epoch)

    def _epoch(self, epoch: int) -> list[tuple[Bucket, np.ndarray]]:
        rng = np.random.default_rng((self._seed, epoch))
        batches = []
        for bucket, members in zip(self.buckets, self._members, strict=True):
            shuffled = rng.permutation(members)
            batches += [
                (bucket, shuffled[i : i + bucket.rows])
                for i in range(0, len(shuffled), bucket.rows)
            ]
        return [batches[i] for i in rng.permutation(len(batches))]

    @property
    def shapes(self) -> list[Batch]:
        """An empty batch of every shape there is."""
        nobody = np.zeros(0, int)
        return [
            make_batch(self._split, bucket, nobody, self._host, self._hosts)
            for bucket in self.buckets
        ]

    def __len__(self) -> int:
        return 2**48  # without end; grain wants a number

    def __getitem__(self, index: int) -> Batch:
        epoch, position = divmod(int(index), self.steps_per_epoch)
        bucket, members = self._plan(epoch)[position]
        return make_batch(self._split, bucket, members, self._host, self._hosts)


def make_batch(
    split: Split, bucket: Bucket, members: np.ndarray, host: int = 0, hosts: int = 1
) -> Batch:
    """This host's rows of a batch, padded with zeros; rows without an example have index -1."""
    rows = bucket.rows // hosts
    members = members[host * rows : (host + 1) * rows]
    batch = split.rectangles(members, bucket.lengths)
    if len(members) < rows:
        for name, numbers in batch.items():
            batch[name] = np.zeros((rows, *numbers.shape[1:]), numbers.dtype)
            batch[name][: len(members)] = numbers
    batch["index"] = np.full(rows, -1, np.int32)
    batch["index"][: len(members)] = members
    return batch


def train_iterator(
    batches: Any, start: int, place: Callable[[Batch], Any] = lambda batch: batch
) -> Iterator[Any]:
    """Batches start, start + 1, ..., read ahead and placed (on devices, say) by a few threads, so
    that neither takes the time of the thread that sends steps."""
    dataset = grain.MapDataset.source(batches)[start:].map(place)
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
    return iter(dataset.to_iter_dataset(options))


def eval_batches(
    split: Split, buckets: list[Bucket], bucket_of: np.ndarray, host: int = 0, hosts: int = 1
) -> Iterator[Batch]:
    """Every example of a split once, in order of length."""
    for number, bucket in enumerate(buckets):
        members = np.flatnonzero(bucket_of == number)
        for i in range(0, len(members), bucket.rows):
            yield make_batch(split, bucket, members[i : i + bucket.rows], host, hosts)
