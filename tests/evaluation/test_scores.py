"""Tests of the scores of hypotheses against references."""

import numpy as np
import pytest
import sacrebleu

from evaluation.scores import (
    edit_rate,
    signatures,
    text_scores,
    token_error_rate,
    tokenized_bleu,
)


def test_scores_equal_those_of_sacrebleu_and_exact_matches_are_counted():
    hypotheses = ["the cat sat on the mat", "A dog", "one two three four five"]
    references = ["the cat sat on a mat", "a dog", "one two three four five"]
    scores = text_scores(hypotheses, [[r] for r in references])
    assert scores["bleu"] == sacrebleu.corpus_bleu(hypotheses, [references]).score
    assert scores["chrf"] == sacrebleu.corpus_chrf(hypotheses, [references]).score
    assert edit_rate(hypotheses, [[r] for r in references]) == (
        sacrebleu.corpus_ter(hypotheses, [references], case_sensitive=True).score
    )
    assert scores["exact"] == 1 / 3
    lower = text_scores(hypotheses, [[r] for r in references], lowercase=True)
    assert lower["exact"] == 2 / 3 and lower["bleu"] > scores["bleu"]
    assert "case:mixed" in signatures()["bleu"] and "case:lc" in signatures(True)["bleu"]


def test_no_break_spaces_match_other_white_space():
    scores = text_scores(["Ça suffit !"], [["Ça  suffit\u202f!"]])
    assert scores["exact"] == 1 and text_scores(["Çasuffit!"], [["Ça suffit!"]])["exact"] == 0


def test_a_hypothesis_may_match_any_of_its_references():
    hypotheses = ["a b c d", "x y z w"]
    references = [["q r s t", "a b c d"], ["x y z w"]]
    scores = text_scores(hypotheses, references)
    assert scores["exact"] == 1
    assert scores["bleu"] == pytest.approx(100)


def test_tokenized_bleu_does_not_tokenize_and_ignores_case():
    hypothesis, reference = (
        ["Ein", "Hund", ",", "der", "läuft", "!"],
        ["ein", "Hund", ",", "der", "rennt", "!"],
    )
    # The reference contains 5 of 6 unigrams, 3 of 5 bigrams, 2 of 4 trigrams and 1 of 3 four-grams.
    # The hypothesis is as long as the reference, so BLEU has no brevity penalty.
    expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    np.testing.assert_allclose(tokenized_bleu([hypothesis], [[reference]]), expected)
    assert "case:lc" in signatures()["tokenized_bleu"]
    assert "tok:none" in signatures()["tokenized_bleu"]


@pytest.mark.parametrize(
    ("hypothesis", "references", "expected"),
    [
        ("K AE T", ["K AE T"], 0),
        ("K AE", ["K AE T"], 1 / 3),  # T is deleted: one edit per three reference phonemes
        ("K AH T S", ["K AE T"], 2 / 3),  # AE is substituted and S is inserted
        ("", ["K AE T"], 1),
        ("T AE K", ["K AE T"], 2 / 3),
        ("K AE T", ["D AO G", "K AE T S"], 1 / 4),  # only the closer reference counts
    ],
)
def test_token_error_by_hand(hypothesis, references, expected):
    rate = token_error_rate([hypothesis.split()], [[r.split() for r in references]])
    assert rate == pytest.approx(expected)


def test_token_error_is_over_the_corpus():
    hypotheses, references = [["a"], list("bcdefghij")], [[["x"]], [list("bcdefghij")]]
    assert token_error_rate(hypotheses, references) == pytest.approx(1 / 10)
