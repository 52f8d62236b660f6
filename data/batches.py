"""Batches of fixed shapes, as a function of the training step.

Examples of similar length share a bucket. All batches of a bucket have the same shape, so the
training step is compiled once per bucket. The examples of batch n depend only on (seed, n): a
checkpoint stores the position in the data as one number, and a resumed run continues with the same
batches, even on a different number of hosts.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data.sampling import SubwordSampler
from data.store import ArrayFields, Split, shapes

Batch = dict[str, np.ndarray]
LEVELS = 512  # `plan_buckets` merges example sizes into at most this many groups


class Bucket(NamedTuple):
    """The shape of a bucket's batches: the number of rows and the length of each named axis."""

    rows: int
    lengths: tuple[int, ...]


def plan_buckets(
    fields: ArrayFields, lengths: np.ndarray, count: int, batch_size: int, unit: str, multiple: int
) -> tuple[list[Bucket], np.ndarray]:
    """Return at most `count` buckets that minimize padding, and the bucket index of each example.

    Examples are sorted by the number of tokens of their largest field. Dynamic programming over the
    distinct sizes (levels) finds the boundaries between buckets that minimize the total number of
    tokens in all batches, including padding and empty rows. If there are more than LEVELS distinct
    sizes, they are first merged into LEVELS groups. `batch_size` is a number of examples if `unit`
    is "sentences"; otherwise it is a number of tokens of the largest field, including padding. The
    number of rows per batch is rounded down to a multiple of `multiple`, but is at least
    `multiple`.
    """
    size = _tokens(fields, lengths).max(axis=1)
    levels, level_of = np.unique(size, return_inverse=True)
    if len(levels) > LEVELS:
        level_of = level_of * LEVELS // len(levels)
    examples = np.bincount(level_of)
    widest = np.zeros((len(examples), lengths.shape[1]), int)
    np.maximum.at(widest, level_of, lengths)

    def rows_of(tokens: np.ndarray) -> np.ndarray:
        """Return the number of rows per batch, given the token counts [n, fields] of one row."""
        rows = batch_size // (1 if unit == "sentences" else np.maximum(1, tokens.max(axis=1)))
        return np.maximum(1, rows // multiple) * multiple

    def padded(first: int) -> np.ndarray:
        """Return the total number of tokens, with padding, of each bucket that starts at `first`.

        Entry i is the total over all batches of the bucket with the levels first..first + i.
        """
        tokens = _tokens(fields, np.maximum.accumulate(widest[first:]))
        rows = rows_of(tokens)
        return -(-np.cumsum(examples[first:]) // rows) * rows * tokens.sum(axis=1)

    spans = _cheapest_spans(len(examples), count, padded)
    widths = np.stack([widest[first : last + 1].max(axis=0) for first, last in spans])
    rows = np.broadcast_to(rows_of(_tokens(fields, widths)), len(spans))
    buckets = [Bucket(int(n), tuple(map(int, w))) for n, w in zip(rows, widths, strict=True)]
    ends = np.array([last for _, last in spans])
    return buckets, np.searchsorted(ends, level_of)


def _tokens(fields: ArrayFields, lengths: np.ndarray) -> np.ndarray:
    """Return the token count of each example [n, fields], for every field with a named axis.

    Axes of fixed length are ignored: a vector counts as one token. Fields without `is_token`
    are left out.
    """
    token_fields = {
        name: field._replace(axes=tuple(a if isinstance(a, str) else 1 for a in field.axes))
        for name, field in fields.items()
        if any(isinstance(axis, str) for axis in field.axes)
    }
    all_shapes = shapes(token_fields, list(lengths.T))
    token_shapes = [all_shapes[name] for name, field in token_fields.items() if field.is_token]
    return np.stack([np.prod(np.broadcast_arrays(*shape), axis=0) for shape in token_shapes], 1)


def _cheapest_spans(
    levels: int, count: int, cost_from: Callable[[int], np.ndarray]
) -> list[tuple[int, int]]:
    """Divide all levels into at most `count` spans with the least total cost.

    `cost_from(i)` returns one cost per span i..j, for every j >= i. The result lists the first and
    the last level of each span.
    """
    cost = np.stack([np.concatenate([np.full(i, np.inf), cost_from(i)]) for i in range(levels)])
    # best[j] is the least cost of dividing levels 0..j into the current number of spans. costs[n]
    # is the least cost of dividing all levels into n + 1 spans.
    best, cuts, costs = cost[0], [], [cost[0, -1]]
    for _ in range(min(count, levels) - 1):
        # total[i, j] is the least cost of levels 0..j if the last span is i..j.
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
    """An endless sequence of training batches, indexed by training step.

    Every epoch contains every example once, in a different order. With several hosts, every batch
    is divided into one block of rows per host. `samplers` segment the text of fields into subwords
    at random, as a function of the seed and the training step.
    """

    def __init__(
        self,
        split: Split,
        buckets: list[Bucket],
        bucket_of: np.ndarray,
        seed: int = 0,
        host: int = 0,
        hosts: int = 1,
        samplers: Mapping[str, SubwordSampler] | None = None,
    ):
        self.buckets, self._samplers = buckets, samplers or {}
        self._split, self._seed, self._host, self._hosts = split, seed, host, hosts
        self._members = [np.flatnonzero(bucket_of == b) for b in range(len(buckets))]
        self.steps_per_epoch = sum(
            -(-len(members) // bucket.rows)
            for members, bucket in zip(self._members, buckets, strict=True)
        )
        self._plan = functools.lru_cache(maxsize=2)(self._epoch)

    def _epoch(self, epoch: int) -> list[tuple[Bucket, np.ndarray]]:
        """Return the bucket and the example indices of every batch of an epoch, in order.

        The order of buckets depends only on the epoch, so that the batches of the same training
        step have the same shape for all seeds.
        """
        rng = np.random.default_rng((self._seed, epoch))
        batches = []
        for bucket, members in zip(self.buckets, self._members, strict=True):
            shuffled = rng.permutation(members)
            batches += [
                (bucket, shuffled[i : i + bucket.rows])
                for i in range(0, len(shuffled), bucket.rows)
            ]
        order = np.random.default_rng(epoch).permutation(len(batches))
        return [batches[i] for i in order]

    @property
    def shapes(self) -> list[Batch]:
        """One batch of empty rows per bucket, for compiling the training step."""
        nothing = np.zeros(0, int)
        return [
            make_batch(self._split, bucket, nothing, self._host, self._hosts)
            for bucket in self.buckets
        ]

    def __len__(self) -> int:
        return 2**48  # grain needs a finite length, so an endless sequence has a huge one

    def __getitem__(self, index: int) -> Batch:
        epoch, position = divmod(int(index), self.steps_per_epoch)
        bucket, members = self._plan(epoch)[position]
        batch = make_batch(self._split, bucket, members, self._host, self._hosts)
        for number, (name, sampler) in enumerate(self._samplers.items(), 1):
            seed, first = (self._seed, int(index), number), self._host * len(batch[name])
            batch[name] = sampler.resample(batch[name], seed, first, bucket.rows)
        return batch


def make_batch(
    split: Split, bucket: Bucket, members: np.ndarray, host: int = 0, hosts: int = 1
) -> Batch:
    """Return this host's rows of a batch, padded with zeros.

    "index" holds the position of each row's example in the split, or -1 for an empty row.
    """
    rows = bucket.rows // hosts
    members = members[host * rows : (host + 1) * rows]
    batch = split.padded(members, bucket.lengths)
    if len(members) < rows:
        for name, values in batch.items():
            batch[name] = np.zeros((rows, *values.shape[1:]), values.dtype)
            batch[name][: len(members)] = values
    batch["index"] = np.full(rows, -1, np.int32)
    batch["index"][: len(members)] = members
    return batch


def padded_batches(
    fields: ArrayFields,
    examples: Sequence[Mapping[str, Any]],
    members: Sequence[int],
    rows: int,
    lengths: Sequence[int],
) -> Iterator[Batch]:
    """Yield batches of the encoded examples at `members`, all of the same shape.

    A batch is zero-padded to `rows` and to the `lengths` of the named axes. "index" holds the
    position of each row's example in `examples`, or -1 for an empty row.
    """
    for first in range(0, len(members), rows):
        chosen = members[first : first + rows]
        batch = {"index": np.full(rows, -1, np.int32)}
        batch["index"][: len(chosen)] = chosen
        for name, shape in shapes(fields, lengths).items():
            batch[name] = np.zeros((rows, *shape), fields[name].dtype)
            for row, i in enumerate(chosen):
                values = np.asarray(examples[i][name])
                batch[name][(row, *map(slice, values.shape))] = values
        yield batch


def train_iterator(
    batches: Any, start: int, place: Callable[[Batch], Any] = lambda batch: batch
) -> Iterator[Any]:
    """Yield the batches start, start + 1, ..., each passed through `place`.

    Background threads read ahead and call `place`, for example to copy a batch to the devices, so
    that training steps wait neither for reading nor for copying.
    """
    import grain  # here, because only training needs it, and the import is slow

    dataset = grain.MapDataset.source(batches)[start:].map(place)
    options = grain.ReadOptions(num_threads=2, prefetch_buffer_size=16)
    return iter(dataset.to_iter_dataset(options))


def eval_batches(
    split: Split, buckets: list[Bucket], bucket_of: np.ndarray, host: int = 0, hosts: int = 1
) -> Iterator[Batch]:
    """Yield batches that contain every example of a split once, one bucket after another."""
    for number, bucket in enumerate(buckets):
        members = np.flatnonzero(bucket_of == number)
        for i in range(0, len(members), bucket.rows):
            yield make_batch(split, bucket, members[i : i + bucket.rows], host, hosts)
