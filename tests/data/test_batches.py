"""Bucket planning, training batches and evaluation batches."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.base import Config, base_config
from data.batches import (
    Batch,
    Batches,
    Bucket,
    eval_batches,
    make_batch,
    plan_buckets,
    train_iterator,
)
from data.store import ArrayField, Prepared
from data.translation import FIELDS, TranslationCorpus
from data.vocabulary import EOS, PAD
from errors import UserError

MULTIPLE = 4
Lengths = list[tuple[int, int]]


def texts(lengths: Lengths) -> list[tuple[str, str]]:
    """Return one pair per (source, target) length in words; every first word is unique."""
    return [
        (f"s{i}" + " a" * (n - 1), f"t{i}" + " b" * (m - 1)) for i, (n, m) in enumerate(lengths)
    ]


def make_corpus(folder: Path, lengths: Lengths) -> Prepared:
    for split, pairs in (("train", texts(lengths)), ("valid", texts(lengths)[:40])):
        for side, language in enumerate(("en", "de")):
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / f"{split}.{language}").write_text(lines)
    data: Config = base_config().data
    data.update({"dir": str(folder), "cache": str(folder / "cache"), "splits": {"test": ""}})
    data.source_vocab.tokenizer = data.target_vocab.tokenizer = "split"
    return TranslationCorpus(data).prepare()


RNG = np.random.default_rng(0)
LENGTHS = [
    (n, max(1, n + d))
    for n, d in zip(RNG.integers(1, 30, 203), RNG.integers(-4, 5, 203), strict=True)
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return make_corpus(tmp_path_factory.mktemp("corpus"), LENGTHS)


def make_batches(corpus: Prepared, tokens: int = 300, **options: int) -> Batches:
    split = corpus.split("train")
    return Batches(
        split, *plan_buckets(FIELDS, split.lengths, 4, tokens, "tokens", MULTIPLE), **options
    )


def epoch(batches: Batches, number: int = 0) -> list[Batch]:
    first = number * batches.steps_per_epoch
    return [batches[first + i] for i in range(batches.steps_per_epoch)]


def indices(batches: list[Batch]) -> list[int]:
    found = np.concatenate([batch["index"] for batch in batches])
    return found[found >= 0].tolist()


def assert_equal(one: Batch, other: Batch) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], strict=True)


# Tests of plan_buckets, which groups examples of similar lengths

some_lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=14)


def padded(examples: int, shape: np.ndarray, size: int, unit: str, multiple: int) -> int:
    """Return the total number of tokens in all batches of a bucket, including padding."""
    rows = size if unit == "sentences" else size // max(shape)
    rows = max(1, rows // multiple) * multiple
    return -(-examples // rows) * rows * int(sum(shape))


def fewest_padded(lengths: np.ndarray, count: int, *batch: Any) -> int:
    """Return the smallest total number of tokens, including padding, with at most `count` buckets.

    This is a brute-force search over all boundaries between buckets.
    """
    size = lengths.max(axis=1)
    levels = sorted(set(size))
    costs = []
    for cuts in range(min(count, len(levels))):
        for inner in itertools.combinations(levels[:-1], cuts):
            of = np.searchsorted([*inner, levels[-1]], size)
            groups = [lengths[of == bucket] for bucket in range(cuts + 1)]
            costs.append(sum(padded(len(group), group.max(axis=0), *batch) for group in groups))
    return min(costs)


@settings(deadline=None)
@given(
    some_lengths,
    st.integers(1, 5),
    st.one_of(
        st.tuples(st.integers(1, 6), st.just("sentences"), st.integers(1, 3)),
        st.tuples(st.integers(1, 60), st.just("tokens"), st.integers(1, 3)),
    ),
)
def test_buckets_minimize_padding(
    lengths: Lengths, count: int, batch: tuple[int, str, int]
) -> None:
    array = np.array(lengths)
    buckets, bucket_of = plan_buckets(FIELDS, array, count, *batch)
    shapes = np.array([bucket.lengths for bucket in buckets])
    assert 1 <= len(buckets) <= count
    numbers = np.bincount(bucket_of, minlength=len(buckets))
    cost = sum(padded(n, shape, *batch) for n, shape in zip(numbers, shapes, strict=True))
    assert cost == fewest_padded(array, count, *batch)
    # The lengths of a bucket must not exceed those of its longest examples, to avoid padding.
    for number, shape in enumerate(shapes):
        assert (array[bucket_of == number].max(axis=0) == shape).all()


@settings(deadline=None)
@given(some_lengths, st.integers(1, 5), st.integers(1, 200), st.integers(1, 8))
def test_batches_have_as_many_rows_as_the_batch_size_allows(
    lengths: Lengths, count: int, batch_size: int, multiple: int
) -> None:
    array = np.array(lengths)
    for unit in ("sentences", "tokens"):
        buckets, _ = plan_buckets(FIELDS, array, count, batch_size, unit, multiple)
        for rows, lengths_of in buckets:
            cost = 1 if unit == "sentences" else max(lengths_of)
            assert rows % multiple == 0
            # A batch has at least `multiple` rows, even if they exceed the batch size.
            assert rows * cost <= batch_size or rows == multiple
            assert (rows + multiple) * cost > batch_size


def test_buckets_for_more_distinct_lengths_than_levels() -> None:
    lengths = np.random.default_rng(0).integers(1, 1500, (100_000, 2))
    buckets, bucket_of = plan_buckets(FIELDS, lengths, 6, 4096, "tokens", 8)
    assert len(buckets) == 6 and np.bincount(bucket_of).min() > 0


def test_buckets_for_documents() -> None:
    """The size of a document is its number of sentences times words per sentence."""
    fields = {"words": ArrayField(("sentence", "word")), "label": ArrayField()}
    lengths = np.array([(1, 50), (50, 1), (10, 10), (2, 3)])
    buckets, bucket_of = plan_buckets(fields, lengths, 2, 500, "tokens", 1)
    for bucket in buckets:
        rows, (sentences, words) = bucket
        assert rows == max(1, 500 // (sentences * words))
    padded = sum(int(np.prod(buckets[b].lengths)) for b in bucket_of)
    # Sort the documents by size. Documents of equal size share a bucket, so k is never 1.
    order = lengths[[3, 0, 1, 2]]
    by_hand = min(
        sum(len(part) * int(np.prod(part.max(axis=0))) for part in (order[: k + 1], order[k + 1 :]))
        for k in (0, 2)
    )
    assert padded == by_hand


# Tests of training batches


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=60),
    st.integers(1, 4), st.integers(1, 150), st.integers(0, 2**32),
)  # fmt: skip
def test_an_epoch_contains_every_pair_once(
    tmp_path_factory: pytest.TempPathFactory, lengths: Lengths, count: int, size: int, seed: int
) -> None:
    split = make_corpus(tmp_path_factory.mktemp("corpus"), lengths).split("train")
    plan = plan_buckets(FIELDS, split.lengths, count, size, "tokens", MULTIPLE)
    batches = Batches(split, *plan, seed=seed)
    for number in (0, 1, 7):
        assert sorted(indices(epoch(batches, number))) == list(range(len(lengths)))


def test_the_order_depends_on_epoch_and_seed(corpus: Prepared) -> None:
    orders = [indices(epoch(make_batches(corpus, seed=s), e)) for s in (0, 1, 2) for e in (0, 1)]
    for one, other in itertools.combinations(orders, 2):
        assert one != other and sorted(one) == sorted(other) == list(range(len(LENGTHS)))
    assert indices(epoch(make_batches(corpus, seed=2), 1)) == orders[-1]


def test_batches_are_shuffled_between_epochs(corpus: Prepared) -> None:
    batches = make_batches(corpus)
    members = [{frozenset(batch["index"]) for batch in epoch(batches, e)} for e in (0, 1)]
    assert len(members[0] & members[1]) < len(members[0]) / 2


def test_batches_have_the_shapes_of_the_buckets(corpus: Prepared) -> None:
    batches = make_batches(corpus)
    shapes = {
        (len(batch["source"]), (batch["source"].shape[1], batch["target"].shape[1]))
        for batch in epoch(batches)
    }
    assert shapes == set(batches.buckets) and len(shapes) == 4
    for batch in epoch(batches):
        assert len(batch["index"]) == len(batch["target"]) == len(batch["source"])
        assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}


@pytest.mark.parametrize("start", [0, 1, 5, 40, 1000])
def test_the_iterator_yields_the_same_batches_as_indexing(corpus: Prepared, start: int) -> None:
    batches, fresh = make_batches(corpus, seed=3), make_batches(corpus, seed=3)
    for step, batch in enumerate(itertools.islice(train_iterator(batches, start), 25), start):
        assert_equal(batch, fresh[step])


def test_an_error_in_a_background_thread_is_raised_by_the_iterator() -> None:
    class Broken:
        def __len__(self) -> int:
            return 10

        def __getitem__(self, index: int) -> dict:
            if index == 3:
                raise UserError("train.source.bin is truncated")
            return {"x": np.zeros(1)}

    batches = train_iterator(Broken(), 0)
    for _ in range(3):
        next(batches)
    with pytest.raises(UserError, match="is truncated"):
        next(batches)


def test_batches_can_be_indexed_in_any_order(corpus: Prepared) -> None:
    batches = make_batches(corpus, seed=3)
    assert batches.steps_per_epoch < 30
    forward = {step: batches[step] for step in range(90)}
    for step in np.random.default_rng(0).permutation(90):
        assert_equal(batches[step], forward[int(step)])


@pytest.mark.parametrize("hosts", [2, 4])
def test_hosts_divide_the_rows_of_a_batch(corpus: Prepared, hosts: int) -> None:
    whole = make_batches(corpus, seed=1)
    parts = [make_batches(corpus, seed=1, host=host, hosts=hosts) for host in range(hosts)]
    for step in range(2 * whole.steps_per_epoch):
        shares = [part[step] for part in parts]
        assert len({share["source"].shape for share in shares}) == 1
        joined = {name: np.concatenate([share[name] for share in shares]) for name in shares[0]}
        assert_equal(joined, whole[step])


# Tests of the rows within a batch


def check_rows(corpus: Prepared, batch: Batch) -> None:
    """Check that every row contains the tokens of its pair and </s>, or only padding."""
    for row, index in enumerate(batch["index"]):
        for side, name in enumerate(("source", "target")):
            ids = batch[name][row].tolist()
            if index == -1:
                assert set(ids) == {PAD}
                continue
            end = ids.index(EOS)
            assert PAD not in ids[:end] and set(ids[end + 1 :]) <= {PAD}
            assert end == LENGTHS[index][side]
            assert corpus.vocabularies[name].decode(ids) == texts(LENGTHS)[index][side]


def test_rows_decode_to_the_text(corpus: Prepared) -> None:
    batches = epoch(make_batches(corpus))
    for batch in batches:
        check_rows(corpus, batch)
    assert any(-1 in batch["index"] for batch in batches)


def test_a_host_without_pairs_gets_padding(corpus: Prepared) -> None:
    split = corpus.split("train")
    last = make_batch(split, Bucket(8, (40, 40)), np.array([5, 2, 9]), host=1, hosts=2)
    assert last["source"].shape == (4, 40) and set(last["index"]) == {-1}
    check_rows(corpus, last)


# Tests of evaluation batches


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("split", ["train", "valid"])
def test_evaluation_batches_contain_every_pair_once(
    corpus: Prepared, split: str, hosts: int
) -> None:
    pairs = corpus.split(split)
    plan = plan_buckets(FIELDS, pairs.lengths, 3, 16, "sentences", MULTIPLE)
    found = [list(eval_batches(pairs, *plan, host=host, hosts=hosts)) for host in range(hosts)]
    # All hosts must have the same number of batches, or some would wait for others forever.
    assert len({len(batches) for batches in found}) == 1
    batches = [batch for part in found for batch in part]
    assert sorted(indices(batches)) == list(range(len(pairs)))
    for batch in batches:
        check_rows(corpus, batch)
    for pair, text in zip(corpus.split("valid").texts(), texts(LENGTHS), strict=False):
        # texts() must return the corpus order, although the batches have another order.
        assert (pair["source"], pair["target"]) == text
