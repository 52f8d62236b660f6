"""Word links from attention, and the alignment error rate."""

import numpy as np
import pytest

from data.links import words_of_tokens
from evaluation.alignment import (
    Gold,
    alignment_error_rate,
    attention_links,
    parse_links,
)


def test_links_are_sure_or_possible():
    assert parse_links("0-0 1?2 3-1") == Gold({(0, 0), (3, 1)}, {(0, 0), (1, 2), (3, 1)})


def test_each_target_word_is_linked_to_the_source_word_it_attends_to_most():
    attention = np.array([
        [0.1, 0.8, 0.1],  # the largest weight is on the second source word: a link
        [0.2, 0.2, 0.6],  # the largest weight is on </s>: no link
        [0.0, 0.0, 0.0],  # an empty window of local attention: no link
        [0.9, 0.1, 0.0],  # the target token is </s>: no link
    ])  # fmt: skip
    assert attention_links(attention, [0, 1], [0, 1, 2]) == {(1, 0)}


def test_subwords_are_merged_into_words():
    attention = np.array([
        [0.4, 0.3, 0.3, 0.0],  # first subword of the first target word, which has two
        [0.5, 0.2, 0.2, 0.1],  # second subword: the source words get 0.9 and 1.0, so a link
        [0.1, 0.1, 0.1, 0.7],  # second target word: the largest weight is on </s>, so no link
        [0.0, 0.0, 0.0, 1.0],  # the target token is </s>: no link
    ])  # fmt: skip
    assert attention_links(attention, [0, 1, 1], [0, 0, 1]) == {(1, 0)}


@pytest.mark.parametrize(
    ("tokens", "words", "expected"),
    [
        (["jun@@", "ge", "männer"], ["junge", "männer"], [0, 0, 1]),
        (["▁jun", "ge", "▁", "männer"], ["junge", "männer"], [0, 0, 1, 1]),
        (["3", "￭.", "März", "2", "￭0"], ["3", ".", "März", "2", "0"], [0, 1, 2, 3, 4]),
        (["3", "￭.", "März", "2", "￭0"], ["3.", "März", "20"], [0, 0, 1, 2, 2]),
        (list("ab cd"), ["ab", "cd"], [0, 0, 1, 1, 1]),
        (["▁...", "▁ja"], ["…", "ja"], [0, 1]),
        ([], [], []),
    ],
)
def test_every_token_belongs_to_a_word(tokens, words, expected):
    assert words_of_tokens(tokens, words) == expected


@pytest.mark.parametrize(
    ("guess", "expected"),
    [
        ({(0, 0), (1, 1)}, 0.0),  # exactly the sure links, so no error
        ({(0, 0), (1, 1), (2, 1)}, 0.0),  # the link (2, 1) is possible, so no error
        ({(0, 0)}, 1 - 2 / 3),  # the sure link (1, 1) is missing
        ({(0, 1), (1, 0)}, 1.0),  # neither link is sure or possible
        ({(0, 0), (1, 1), (2, 2)}, 1 - 4 / 5),  # the link (2, 2) is neither sure nor possible
        (set(), 1.0),  # without links, both sure links are missing
    ],
)
def test_error_rate_by_hand(guess, expected):
    gold = Gold({(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)})
    assert alignment_error_rate([guess], [gold]) == pytest.approx(expected)


def test_error_rate_of_a_published_example():
    """The example in the documentation of NLTK's nltk.metrics.aer gives 2/3."""
    gold = {(0, 0), (1, 1), (2, 2)}
    guess = {(0, 0), (1, 2), (2, 1)}
    assert alignment_error_rate([guess], [Gold(gold, gold)]) == pytest.approx(2 / 3)


def test_error_rate_is_over_the_corpus_not_a_mean_over_sentences():
    gold = Gold({(0, 0)}, {(0, 0)})
    pairs = [({(0, 0)}, gold), ({(1, 0), (1, 1), (1, 2)}, gold)]
    guesses, golds = zip(*pairs, strict=True)
    assert alignment_error_rate(guesses, golds) == pytest.approx(1 - 2 / 6)
