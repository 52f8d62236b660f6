"""p-values that are small where systems differ, and only there."""

import numpy as np
import pytest

from evaluation.bootstrap import (
    bleu_score,
    bleu_statistics,
    mean_score,
    paired_bootstrap_p,
    share,
)
from evaluation.scores import tokenised_bleu

RNG = np.random.default_rng(0)


def test_a_system_does_not_differ_from_itself():
    right = [share(RNG.random(50) < 0.5) for _ in range(3)]
    assert paired_bootstrap_p(right, right, mean_score) == 1


def test_a_difference_is_seen_from_either_side():
    worse = [share(np.arange(200) % 4 > 0)]
    better = [share(np.arange(200) % 8 > 0)]
    for pair in ((better, worse), (worse, better)):
        assert paired_bootstrap_p(*pair, mean_score) < 0.01


def test_chance_is_called_so_as_often_as_it_should_be():
    found = [
        paired_bootstrap_p(
            [share(RNG.random(80) < 0.5)], [share(RNG.random(80) < 0.5)], mean_score, samples=200
        )
        for _ in range(200)
    ]
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.11


def test_summed_statistics_make_the_bleu_of_the_whole():
    words = list("abcdefgh")
    gold = [[list(RNG.choice(words, 9))] for _ in range(30)]
    ours = [[w if RNG.random() < 0.8 else "z" for w in own] for (own,) in gold]
    found = bleu_score(bleu_statistics(ours, gold).sum(axis=0))
    assert found == pytest.approx(tokenised_bleu(ours, gold))
    assert bleu_score(np.zeros(10)) == 0
