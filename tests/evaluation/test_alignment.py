"""Word links from attention, and the alignment error rate."""

import numpy as np
import pytest

from data.links import Gold, format_links, parse_links, words_of_tokens
from errors import UserError
from evaluation.alignment import (
    LinkSettings,
    alignment_error_rate,
    attention_links,
    symmetrize,
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
    ("threshold", "expected"),
    [(0.3, {(0, 0), (1, 0), (1, 1)}), (0.5, {(0, 0), (1, 1)}), (0.56, {(1, 1)}), (0.9, set())],
)
def test_a_threshold_links_every_pair_of_words_with_enough_weight(threshold, expected):
    attention = np.array([
        [0.6, 0.2, 0.2, 0.0],  # first subword of the first target word, which has two
        [0.5, 0.1, 0.2, 0.2],  # second subword: the means of the source words are 0.55 and 0.35
        [0.1, 0.3, 0.5, 0.1],  # second target word: 0.1 and 0.8
        [0.0, 0.0, 0.0, 1.0],  # the target token is </s>: no link
    ])  # fmt: skip
    assert attention_links(attention, [0, 1, 1], [0, 0, 1], threshold) == expected


FORWARD = {(0, 0), (1, 1), (1, 2), (3, 3), (5, 6)}
REVERSE = {(0, 0), (2, 1), (3, 3), (4, 4), (4, 6), (6, 1)}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("intersection", {(0, 0), (3, 3)}),
        ("union", FORWARD | REVERSE),
        # (1, 1) and (4, 4) are neighbors of the intersection. (1, 2) is a neighbor of (1, 1), and
        # (2, 1) of (1, 1) and (1, 2): each links one word that has no link yet. At the end, (5, 6)
        # links two words without links. (4, 6) and (6, 1) have no neighbor, and link a word that
        # is linked already.
        ("grow_diag_final_and",
         {(0, 0), (3, 3), (1, 1), (4, 4), (1, 2), (2, 1), (5, 6)}),
    ],
)  # fmt: skip
def test_both_directions_are_symmetrized(method, expected):
    swapped = {(target, source) for source, target in REVERSE}
    assert symmetrize(FORWARD, swapped, method) == expected
    # All methods are symmetric on this example.
    assert symmetrize(REVERSE, {(t, s) for s, t in FORWARD}, method) == expected


def test_growing_does_not_link_two_words_that_are_both_linked():
    forward, reverse = {(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1), (1, 0)}
    swapped = {(target, source) for source, target in reverse}
    assert symmetrize(forward, swapped, "grow_diag_final_and") == {(0, 0), (1, 1)}


def test_links_are_written_in_pharaoh_notation():
    links = {(10, 0), (2, 3), (2, 1)}
    assert format_links(links) == "2-1 2-3 10-0"
    assert parse_links(format_links(links)).sure == links and format_links(set()) == ""


def test_settings_are_described_and_recorded_if_they_have_an_effect():
    settings = LinkSettings("layer 1", 0.5, (), "layer 0", "union")
    assert settings.record() == {"weights": "layer 1", "threshold": 0.5}
    assert settings.describe() == "teacher-forced 'layer 1' weights, threshold 0.5"
    both = LinkSettings("layer 1", 0.0, ("runs/b",), "layer 0", "union")
    assert both.record() == both._asdict()
    assert both.describe() == (
        "teacher-forced 'layer 1' weights, largest weight, union with 'layer 0' weights of runs/b"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (LinkSettings(threshold=1.5), "--align_threshold=1.5 is invalid"),
        (LinkSettings(threshold=float("nan")), "between 0 and 1"),
        (LinkSettings(symmetrize="both"), "both is unknown: use one of intersection, union"),
    ],
)
def test_a_mistake_in_the_settings_is_a_user_error(settings, message):
    with pytest.raises(UserError, match=message):
        settings.check()


@pytest.mark.parametrize(
    ("tokens", "words", "expected"),
    [
        (["jun@@", "ge", "männer"], ["junge", "männer"], [0, 0, 1]),
        (["▁jun", "ge", "▁", "männer"], ["junge", "männer"], [0, 0, 1, 1]),
        (["3", "￭.", "März", "2", "￭0"], ["3", ".", "März", "2", "0"], [0, 1, 2, 3, 4]),
        (["3", "￭.", "März", "2", "￭0"], ["3.", "März", "20"], [0, 0, 1, 2, 2]),
        (list("ab cd"), ["ab", "cd"], [0, 0, 1, 1, 1]),
        (["▁...", "▁ja"], ["…", "ja"], [0, 1]),
        # Decomposed text split into characters, and a letter that is two characters in lower case.
        (list("e\u0301e\u0301 ab"), ["e\u0301e\u0301", "ab"], [0, 0, 0, 0, 1, 1, 1]),
        (["a", "b", "i\u0307i\u0307i\u0307"], ["a", "b", "İİİ"], [0, 1, 2]),
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
