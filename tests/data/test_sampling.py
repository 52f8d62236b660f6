"""Subword sampling: distributions, reproducibility, lengths of rows, and the default."""

import collections
import functools
import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

import data.sampling
from configs.base import Config, base_config
from data import dates
from data.batches import Batch, Batches, plan_buckets, train_iterator
from data.sampling import SubwordSampler, plan_lengths
from data.segmentation import _ONE, Pieces, UnigramSampling
from data.store import Prepared, pad_rows
from data.translation import FIELDS, TranslationCorpus
from data.vocabulary import EOS, UNK, SentencePieceVocabulary

KINDS = {"unigram": 0.3, "bpe": 0.25}  # with a value of `sampling`
Distribution = dict[tuple[int, ...], float]


@functools.cache
def vocabulary(kind: str) -> SentencePieceVocabulary:
    settings: Config = base_config().data.source_vocab
    settings.update({"kind": kind, "size": 200, "lowercase": True})
    texts = (pair.source for pair in itertools.islice(dates.examples("train"), 2000))
    return SentencePieceVocabulary.learn(texts, settings, "en")


def sampler(kind: str, strength: float, most: int = 40) -> SubwordSampler:
    return SubwordSampler(vocabulary(kind), kind, strength, most)


def sampled(kind: str, strength: float, word: str, count: int = 20_000) -> Distribution:
    """Return the relative frequencies of segmentations in `count` samples of a word."""
    table = np.zeros((count, 40), np.int32)
    ids = vocabulary(kind).encode(word)
    table[:, : len(ids)] = ids
    samples = sampler(kind, strength).resample(table, (1, 2))
    found = collections.Counter(tuple(row[row > 0].tolist()) for row in samples)
    return {ids: n / count for ids, n in found.items()}


def assert_close(found: Distribution, expected: Distribution, count: int = 20_000) -> None:
    """Check that frequencies differ from probabilities by at most five standard deviations."""
    assert math.isclose(sum(expected.values()), 1, abs_tol=0.02) and len(expected) > 4
    for ids in {*found, *expected}:
        p = expected.get(ids, 0.0)
        assert abs(found.get(ids, 0.0) - p) <= 5 * math.sqrt(p * (1 - p) / count) + 1 / count


@pytest.mark.parametrize("word", ["november", "saturday"])
def test_probabilities_do_not_depend_on_the_words_that_were_added_before(word):
    bounds = []
    for before in (0, 10**7):  # so many nodes precede those of the word
        sampling = UnigramSampling(Pieces(vocabulary("unigram")), 0.3)
        sampling._nodes = before
        sampling.add(word)
        bounds.append(sampling._bounds.values - before * _ONE)
    assert np.array_equal(*bounds)


# Exact distributions by enumeration


def segmentations(kind: str, text: str) -> list[tuple[int, ...]]:
    if not text:
        return [()]
    ids = {vocabulary(kind).token(i): i for i in range(4, len(vocabulary(kind)))}
    return [
        (ids[text[:i]], *rest)
        for i in range(1, len(text) + 1)
        if text[:i] in ids
        for rest in segmentations(kind, text[i:])
    ]


def exact_unigram(text: str, alpha: float) -> Distribution:
    weights = {
        ids: math.exp(alpha * sum(map(vocabulary("unigram").score, ids)))
        for ids in segmentations("unigram", text)
    }
    return {ids: weight / sum(weights.values()) for ids, weight in weights.items()}


def exact_bpe(text: str, rate: float, again: bool = True) -> Distribution:
    """Return the distribution of BPE-dropout, by enumeration of all sets of dropped merges.

    With `again`, each merge step drops every possible merge with probability `rate` (Algorithm 1 of
    Provilkov 2020). Otherwise, the fate of a pair of tokens is decided once, as in SentencePiece.
    """
    of = vocabulary("bpe")
    ids = {of.token(i): i for i in range(4, len(of))}
    result: Distribution = collections.defaultdict(float)
    Span = tuple[int, int]

    def walk(spans: tuple[Span, ...], banned: frozenset, p: float) -> None:
        merges = sorted(
            (-of.score(ids[text[left[0] : right[1]]]), k)
            for k, (left, right) in enumerate(itertools.pairwise(spans))
            if text[left[0] : right[1]] in ids and (left, right) not in banned
        )
        for n, (_, k) in enumerate(merges):
            dropped = frozenset((spans[i], spans[i + 1]) for _, i in merges[:n])
            merged = (*spans[:k], (spans[k][0], spans[k + 1][1]), *spans[k + 2 :])
            kept = frozenset() if again else banned | dropped
            if p * rate**n > 1e-9:
                walk(merged, kept, p * rate**n * (1 - rate))
        result[tuple(ids[text[i:j]] for i, j in spans)] += p * rate ** len(merges)

    walk(tuple((i, i + 1) for i in range(len(text))), frozenset(), 1.0)
    return result


def test_unigram_samples_have_the_exact_distribution() -> None:
    for word, alpha in (("thursday", 0.3), ("september", 1.0)):
        assert_close(sampled("unigram", alpha, word), exact_unigram(f"▁{word}", alpha))


def test_bpe_dropout_has_the_exact_distribution() -> None:
    for word, rate in (("thursday", 0.1), ("september", 0.4)):
        assert_close(sampled("bpe", rate, word), exact_bpe(f"▁{word}", rate))


def library(kind: str, strength: float, word: str, count: int) -> Distribution:
    """Return the relative frequencies of segmentations in SentencePiece's samples."""
    processor = vocabulary(kind)._processor
    sentencepiece.set_random_generator_seed(1)
    found = collections.Counter(
        tuple(processor.encode(word, enable_sampling=True, alpha=strength, nbest_size=-1))
        for _ in range(count)
    )
    return {ids: n / count for ids, n in found.items()}


def test_sentencepiece_has_the_same_distribution_for_unigram_models() -> None:
    assert_close(library("unigram", 0.3, "thursday", 5000), exact_unigram("▁thursday", 0.3), 5000)


def test_sentencepiece_decides_once_about_a_merge_of_bpe() -> None:
    """Its BPE-dropout is not that of the paper, which decides again at every merge step."""
    found = library("bpe", 0.25, "september", 5000)
    assert_close(found, exact_bpe("▁september", 0.25, again=False), 5000)
    paper = exact_bpe("▁september", 0.25)
    assert sum(abs(found.get(ids, 0) - p) for ids, p in paper.items()) > 0.2


TEXTS = [pair.source for pair in itertools.islice(dates.examples("valid"), 200)]


@pytest.mark.parametrize(("kind", "strength"), [("unigram", 200.0), ("bpe", 1e-12)])
def test_without_randomness_samples_are_the_best_segmentation(kind: str, strength: float) -> None:
    table = pad_rows([[*vocabulary(kind).encode(text), EOS] for text in TEXTS])
    np.testing.assert_array_equal(sampler(kind, strength).resample(table, (1,)), table)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_decode_to_the_same_text(kind: str) -> None:
    rows = [[*vocabulary(kind).encode(text), EOS] for text in TEXTS]
    table = pad_rows([*rows, [EOS] * 60])[:-1]
    samples = sampler(kind, KINDS[kind]).resample(table, (1,))
    assert (samples != table).any(axis=1).mean() > 0.5
    for sample, text in zip(samples.tolist(), TEXTS, strict=True):
        length = sample.index(EOS) + 1
        assert 0 not in sample[:length] and not any(sample[length:])
        assert vocabulary(kind).decode(sample) == text.lower()


@pytest.mark.parametrize("kind", KINDS)
def test_words_with_unknown_characters_and_empty_rows_are_kept(kind: str) -> None:
    ids = [*vocabulary(kind).encode("march日 日"), EOS]
    assert UNK in ids
    table = pad_rows([ids + [0] * 20, [0], [EOS]])
    np.testing.assert_array_equal(sampler(kind, KINDS[kind]).resample(table, (1,)), table)


@pytest.mark.parametrize("kind", KINDS)
def test_words_keep_their_best_segmentation_if_a_row_is_full(kind: str) -> None:
    rows = [[*vocabulary(kind).encode(text), EOS] for text in TEXTS]
    table = pad_rows(rows)  # as wide as the longest row
    samples = sampler(kind, KINDS[kind]).resample(table, (1,))
    assert samples.shape == table.shape
    longest = np.count_nonzero(table, axis=1).argmax()
    assert np.count_nonzero(samples[longest]) <= table.shape[1]
    for sample, text in zip(samples.tolist(), TEXTS, strict=True):
        assert vocabulary(kind).decode(sample) == text.lower() and EOS in sample


# Batches of a corpus


def settings_of(cache: Path, kind: str, source: float, target: float, shared: bool) -> Config:
    settings: Config = base_config().data
    settings.update({"corpus": "dates", "cache": str(cache), "shared_vocab": shared})
    settings.examples.update({"train": 300, "valid": 10, "test": 10})
    settings.source_vocab.update({"kind": kind, "size": 150, "sampling": source})
    settings.target_vocab.update({"kind": kind, "size": 110, "sampling": target})
    return settings


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def make_batches(cache: Path, kind: str, seed: int = 3, **options: int) -> Batches:
    """Return batches of a corpus with a shared vocabulary, with samples on both sides."""
    corpus = TranslationCorpus(settings_of(cache, kind, KINDS[kind], KINDS[kind], shared=True))
    prepared = corpus.prepare()
    split, samplers = prepared.split("train"), corpus.samplers(prepared.vocabularies)
    plan = plan_buckets(FIELDS, plan_lengths(split, samplers), 2, 16, "sentences", 4)
    return Batches(split, *plan, seed=seed, **options, samplers=samplers)


def assert_equal(one: Batch, other: Batch) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], strict=True)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_depend_only_on_the_seed_and_the_training_step(kind: str, cache: Path) -> None:
    batches = make_batches(cache, kind)
    expected = {step: batches[step] for step in range(40)}
    fresh = make_batches(cache, kind)
    for step in (39, 0, 17, 17):  # in another order, twice, and with an empty cache of words
        assert_equal(fresh[step], expected[step])
    resumed = train_iterator(make_batches(cache, kind), 25)
    for step, batch in enumerate(itertools.islice(resumed, 10), 25):
        assert_equal(batch, expected[step])
    shared = make_batches(cache, kind)
    with ThreadPoolExecutor(8) as threads:
        for batch, step in zip(threads.map(shared.__getitem__, expected), expected, strict=True):
            assert_equal(batch, expected[step])


@pytest.mark.parametrize("hosts", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_do_not_depend_on_the_number_of_hosts(kind: str, hosts: int, cache: Path) -> None:
    whole = make_batches(cache, kind)
    parts = [make_batches(cache, kind, host=host, hosts=hosts) for host in range(hosts)]
    for step in range(20):
        shares = [part[step] for part in parts]
        joined = {name: np.concatenate([share[name] for share in shares]) for name in shares[0]}
        assert_equal(joined, whole[step])


@pytest.mark.parametrize("kind", KINDS)
def test_an_emptied_cache_changes_nothing(
    kind: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [make_batches(cache, kind)[step] for step in range(3)]
    monkeypatch.setattr(data.sampling, "CACHED", 0)
    batches = make_batches(cache, kind)
    for step, batch in enumerate(expected):
        assert_equal(batches[step], batch)


def rows_by_index(batches: Batches, epoch: int) -> dict[int, bytes]:
    first = epoch * batches.steps_per_epoch
    every = [batches[step] for step in range(first, first + batches.steps_per_epoch)]
    return {
        int(i): batch["source"][row].tobytes()
        for batch in every
        for row, i in enumerate(batch["index"])
        if i >= 0
    }


@pytest.mark.parametrize("kind", KINDS)
def test_samples_differ_between_epochs_seeds_and_rows(kind: str, cache: Path) -> None:
    batches = make_batches(cache, kind)
    epochs = [rows_by_index(b, e) for b, e in ((batches, 0), (batches, 1))]
    epochs.append(rows_by_index(make_batches(cache, kind, seed=4), 0))
    for one, other in itertools.combinations(epochs, 2):
        assert one.keys() == other.keys()
        assert sum(one[i] != other[i] for i in one) > 0.4 * len(one)


def test_buckets_have_room_for_samples(cache: Path) -> None:
    corpus = TranslationCorpus(settings_of(cache, "unigram", 0.3, 0.0, shared=True))
    prepared = corpus.prepare()
    split, samplers = prepared.split("train"), corpus.samplers(prepared.vocabularies)
    planned = plan_lengths(split, samplers)
    assert list(samplers) == ["source"]
    np.testing.assert_array_equal(planned[:, 1], split.lengths[:, 1])
    assert (planned[:, 0] >= split.lengths[:, 0]).all() and planned.max() <= 51
    table = split.padded(np.arange(len(split)), [51, 51])["source"]
    lengths = np.count_nonzero(samplers["source"].resample(table, (5,)), axis=1)
    assert 0.95 < planned[:, 0].mean() / lengths.mean() < 1.2


def test_sampling_is_off_by_default_and_does_not_change_the_prepared_corpus(cache: Path) -> None:
    def prepare(strength: float) -> tuple[TranslationCorpus, Prepared]:
        corpus = TranslationCorpus(settings_of(cache, "bpe", strength, strength, shared=False))
        return corpus, corpus.prepare()

    default = base_config().data
    assert default.source_vocab.sampling == default.target_vocab.sampling == 0
    (corpus, plain), (sampling, prepared) = prepare(0.0), prepare(0.2)
    assert plain.folder == prepared.folder and "sampling" not in str(corpus.cache_key())
    assert corpus.samplers(plain.vocabularies) == {}
    split = plain.split("train")
    np.testing.assert_array_equal(plan_lengths(split, {}), split.lengths)
    plan = plan_buckets(FIELDS, split.lengths, 2, 16, "sentences", 4)
    one, other = Batches(split, *plan, seed=1), Batches(split, *plan, seed=1, samplers={})
    changed = Batches(split, *plan, seed=1, samplers=sampling.samplers(prepared.vocabularies))
    for step in range(5):
        assert_equal(one[step], other[step])
        np.testing.assert_array_equal(one[step]["index"], changed[step]["index"])
        assert (one[step]["target"] != changed[step]["target"]).any()
