"""Tests of the paired bootstrap: p-values are small only for systems that differ."""

import numpy as np
import pytest

from evaluation.bootstrap import (
    bleu_score,
    bleu_statistics,
    confidence_interval,
    mean_score,
    mean_statistics,
    paired_bootstrap_p,
)
from evaluation.scores import tokenized_bleu

RNG = np.random.default_rng(0)


def random_statistics(count):
    """Return the statistics of a system that is correct on a random half of the examples."""
    return mean_statistics((RNG.random(count) < 0.5).tolist())


def test_a_system_does_not_differ_from_itself():
    right = [random_statistics(50) for _ in range(3)]
    assert paired_bootstrap_p(right, right, mean_score) == 1


def test_the_confidence_interval_of_a_mean():
    """The interval is about ± 1.96 standard errors."""
    values = np.arange(400) % 2
    mean, low, high = confidence_interval(mean_statistics(values.tolist()), mean_score)
    assert mean == 0.5
    np.testing.assert_allclose([low, high], [0.5 - 0.049, 0.5 + 0.049], atol=0.006)


def test_the_p_value_is_two_sided():
    worse = [mean_statistics([i % 4 > 0 for i in range(200)])]
    better = [mean_statistics([i % 8 > 0 for i in range(200)])]
    for pair in ((better, worse), (worse, better)):
        assert paired_bootstrap_p(*pair, mean_score) < 0.01


def test_equal_systems_are_significant_at_the_nominal_rate():
    found = [
        paired_bootstrap_p([random_statistics(80)], [random_statistics(80)], mean_score)
        for _ in range(200)
    ]
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.11


def test_summed_statistics_give_corpus_bleu():
    words = list("abcdefgh")
    gold = [[list(RNG.choice(words, 9))] for _ in range(30)]
    ours = [[w if RNG.random() < 0.8 else "z" for w in reference] for (reference,) in gold]
    found = bleu_score(bleu_statistics(ours, gold).sum(axis=0))
    assert found == pytest.approx(tokenized_bleu(ours, gold))
    assert bleu_score(np.zeros(10)) == 0
