"""Tests of the paired bootstrap: p-values are small only for systems that differ."""

import numpy as np
import pytest

from evaluation.bootstrap import (
    EXAMPLE_SCORES,
    bleu_score,
    bleu_statistics,
    confidence_interval,
    equation_p,
    format_p,
    mean_score,
    mean_statistics,
    paired_bootstrap_p,
    text_statistics,
)
from evaluation.scores import text_scores, tokenized_bleu

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


@pytest.mark.parametrize("kept", [1, 2, 3, 5])
def test_summed_statistics_give_the_scores_of_sacrebleu(kept):
    """The first `kept` words of each hypothesis are right, so longer n-grams are smoothed."""
    words = [f"w{i}" for i in range(30)]
    drawn = [list(RNG.choice(words, 7, replace=False)) for _ in range(20)]
    hypotheses = [" ".join([*gold[:kept], *["Z"] * (7 - kept)]) for gold in drawn]
    references = [[" ".join(gold), " ".join(gold[:6])] for gold in drawn]
    for lowercase in (False, True):
        expected = text_scores(hypotheses, references, lowercase)
        found = text_statistics(hypotheses, references, lowercase)
        assert expected["bleu"] > 0 and found.keys() == expected.keys()
        for name, rows in found.items():
            assert rows.shape[1] == EXAMPLE_SCORES[name].width
            score = EXAMPLE_SCORES[name].score(rows.sum(axis=0))
            assert score == pytest.approx(expected[name]), name


def test_scores_of_empty_and_wholly_wrong_hypotheses_are_zero():
    for texts in (["", ""], ["zz", "z z z z z"], ["z" * 9, ""]):
        for name, rows in text_statistics(texts, [["a b"], ["a b c d"]], False).items():
            assert EXAMPLE_SCORES[name].score(rows.sum(axis=0)) == 0
            assert np.isfinite(EXAMPLE_SCORES[name].score(np.stack([rows[0], rows[1]]))).all()


def test_a_smoothed_score_differs_from_zero_in_the_bootstrap():
    """The p-value belongs to the BLEU that is shown, not to one without smoothing."""
    references = [[f"{i} a b c d"] for i in range(40)]
    good, bad = [f"{i} x y z" for i in range(40)], ["w x y z"] * 40
    score = EXAMPLE_SCORES["bleu"].score
    first, second = (text_statistics(texts, references, False)["bleu"] for texts in (good, bad))
    assert score(first.sum(axis=0)) > 0.5 and score(second.sum(axis=0)) == 0
    assert paired_bootstrap_p([first], [second], score) < 0.01


def test_the_bootstrap_tells_a_real_difference_of_texts_from_chance():
    references = [" ".join(RNG.choice(list("abcdefgh"), 12)) for _ in range(80)]

    def corrupted(share):
        texts = [
            " ".join("z" if RNG.random() < share else word for word in text.split())
            for text in references
        ]
        return text_statistics(texts, [[text] for text in references], False)

    base, alike, worse = corrupted(0.2), corrupted(0.2), corrupted(0.4)
    for name in ("bleu", "chrf"):
        score = EXAMPLE_SCORES[name].score

        def p(system, name=name, score=score):
            return paired_bootstrap_p([base[name]], [system[name]], score)

        assert p(worse) < 0.01 < 0.05 < p(alike) and p(base) == 1


def test_p_values_are_written_as_equations():
    values = (0.0005, 0.0012, 0.5, 0.9998, 1)
    assert [equation_p(format_p(p)) for p in values] == [
        "p < .001", "p = .001", "p = .500", "p = 1", "p = 1",
    ]  # fmt: skip
