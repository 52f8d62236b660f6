"""Batches of fixed shapes, as a function of the step.

Pairs of similar length share a bucket; a bucket has one shape, so the step is compiled once a
bucket. Which pairs make batch n is a function of (seed, n) alone: a resumed run, and a run on
another number of hosts, reads on where the first one stopped, and the position that a checkpoint
has to keep is one number.
"""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import grain
import numpy as np

from data.prepare import Split
from data.vocabulary import EOS, PAD

Batch = dict[str, np.ndarray]


class Bucket(NamedTuple):
    """The shape of a bucket's batches: rows, source and target tokens, ends included."""

    rows: int
    source: int
    target: int


def plan_buckets(
    lengths: np.ndarray, count: int, batch_size: int, unit: str, multiple: int
) -> tuple[list[Bucket], np.ndarray]:
    """At most `count` buckets with the fewest padded tokens, and the bucket of every pair.

    Pairs are ordered by their longer side; the cuts between buckets minimise the total padded
    size by dynamic programming over the distinct lengths. `batch_size` counts sentences, or
    tokens of the longer side with padding; rows are rounded down to a `multiple`.
    """
    lengths = lengths + 1  # both sides end in </s>
    size = lengths.max(axis=1)
    levels, level_of = np.unique(size, return_inverse=True)
    pairs = np.bincount(level_of)
    widest = np.zeros((len(levels), 2), int)
    np.maximum.at(widest, level_of, lengths)

    def padded(first: int) -> np.ndarray:
        """Padded tokens of one bucket over levels first..last, for every last."""
        return np.cumsum(pairs[first:]) * np.maximum.accumulate(widest[first:]).sum(axis=1)

    levels_count = len(levels)
    cost = np.stack([np.concatenate([np.full(i, np.inf), padded(i)]) for i in range(levels_count)])
    best, cuts = cost[0], []
    for _ in range(min(count, levels_count) - 1):
        # total[i, j]: the best so far ends before level i, one more bucket spans i..j
        total = np.concatenate([[np.inf], best[:-1]])[:, None] + cost
        cuts.append(total.argmin(axis=0))
        best = total.min(axis=0)

    last, spans = levels_count - 1, []
    for cut in reversed(cuts):
        spans.append((cut[last], last))
        last = cut[last] - 1
    spans.append((0, last))
    spans.reverse()

    buckets = []
    for first, last in spans:
        source, target = widest[first : last + 1].max(axis=0)
        rows = batch_size if unit == "sentences" else batch_size // max(source, target)
        rows = max(1, rows // multiple) * multiple
        buckets.append(Bucket(rows, int(source), int(target)))
    ends = np.array([last for _, last in spans])
    return buckets, np.searchsorted(ends, level_of)


class Batches:
    """Training batches without end, by number. Every epoch holds every pair once."""

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

    def __len__(self) -> int:
        return 2**48  # without end; grain wants a number

    def __getitem__(self, index: int) -> Batch:
        epoch, position = divmod(int(index), self.steps_per_epoch)
        bucket, members = self._plan(epoch)[position]
        return make_batch(self._split, bucket, members, self._host, self._hosts)


def make_batch(
    split: Split, bucket: Bucket, members: np.ndarray, host: int = 0, hosts: int = 1
) -> Batch:
    """This host's rows of a batch; rows without a pair are all padding and have index -1."""
    rows = bucket.rows // hosts
    members = members[host * rows : (host + 1) * rows]
    batch = {
        "source": np.full((rows, bucket.source), PAD, np.int32),
        "target": np.full((rows, bucket.target), PAD, np.int32),
        "index": np.full(rows, -1, np.int32),
    }
    batch["index"][: len(members)] = members
    for row, (source, target) in enumerate(split.ids(members)):
        for name, ids in (("source", source), ("target", target)):
            batch[name][row, : len(ids)] = ids
            batch[name][row, len(ids)] = EOS
    return batch


def train_iterator(batches: Any, start: int) -> Iterator[Batch]:
    """Batches start, start + 1, ..., read ahead by a few threads."""
    dataset = grain.MapDataset.source(batches)[start:]
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
    return iter(dataset.to_iter_dataset(options))


def eval_batches(
    split: Split, buckets: list[Bucket], bucket_of: np.ndarray, host: int = 0, hosts: int = 1
) -> Iterator[Batch]:
    """Every pair of a split once, in order of length."""
    for number, bucket in enumerate(buckets):
        members = np.flatnonzero(bucket_of == number)
        for i in range(0, len(members), bucket.rows):
            yield make_batch(split, bucket, members[i : i + bucket.rows], host, hosts)
