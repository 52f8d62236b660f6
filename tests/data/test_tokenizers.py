"""Tokenizers: tokens of known texts, and detokenization."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.tokenizers import JOINER, TOKENIZERS, make_tokenizer

UNICODE = make_tokenizer("unicode", "")
JOINERS = "\u200c\u200d"
SPACES = "\t\n\x0b\x1c\x85\xa0\u2003\u2028\u3000"
# Random texts in which the characters of the list below are frequent. They contain no joiner,
# because the tokens of a text with a joiner are ambiguous.
TEXTS = st.text(st.sampled_from("aß1٣².,_-\u0301" + SPACES) | st.characters(codec="utf-8")).map(
    lambda text: text.replace(JOINER, "")
)


@settings(deadline=None)
@given(TEXTS)
def test_unicode_restores_the_text_up_to_whitespace(text: str) -> None:
    tokens = UNICODE.tokenize(text)
    assert UNICODE.detokenize(tokens) == " ".join(text.split())


@settings(deadline=None)
@given(TEXTS)
def test_unicode_tokens_are_words_digits_or_punctuation_signs(text: str) -> None:
    tokens = [token.removeprefix(JOINER) for token in UNICODE.tokenize(text)]
    assert "".join(tokens) == "".join(text.split())
    for token in tokens:
        # Combining marks and joiners belong to the character before them.
        rest = (c for c in token[1:] if unicodedata.category(c)[0] != "M" and c not in JOINERS)
        first = token[:1] + "".join(rest)
        assert re.fullmatch(r"[^\W\d]+|\d|[^\w\s]", first)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("3. März 2026", ["3", "￭.", "März", "2", "￭0", "￭2", "￭6"]),
        ("don't (ever)", ["don", "￭'", "￭t", "(", "￭ever", "￭)"]),
        ("x42y", ["x", "￭4", "￭2", "￭y"]),
        ("日本2", ["日本", "￭2"]),
        ("हिन्दी में।", ["हिन्दी", "में", "￭।"]),
        ("क्\u200dष می\u200cخواهم", ["क्\u200dष", "می\u200cخواهم"]),
        ("שָׁלוֹם!", ["שָׁלוֹם", "￭!"]),
        (
            "e\u0301te\u0301 1\u0301 \u2764\ufe0fa",
            ["e\u0301te\u0301", "1\u0301", "\u2764\ufe0f", "￭a"],
        ),
        (" \xa0,a", [",", "￭a"]),  # no joiner before ",", as it is the first token
        ("a\u2028b\xa0 c", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_unicode_tokens_of_known_texts(text: str, tokens: list[str]) -> None:
    assert UNICODE.tokenize(text) == tokens


def test_plain_words_contain_combining_marks() -> None:
    tokens = make_tokenizer("plain", "").tokenize("यह हिन्दी है, i\u0307t isn't")
    assert tokens == ["यह", "हिन्दी", "है", ",", "i\u0307t", "isn't"]


def test_a_joiner_at_the_start_is_ignored() -> None:
    assert UNICODE.detokenize(["￭a", "￭,", "b"]) == "a, b"  # a model may output a joiner first


@pytest.mark.parametrize(
    ("language", "text", "whole"),
    [
        ("en", "He said: \"It's 3.5% of Mr. Smith's money, isn't it?\"", {"3.5", "Mr.", '"'}),
        ("de", "Der 3. Mann (etwa 1,5 m groß) kam z.B. aus Köln, nicht wahr?", {"3.", "1,5", ")"}),
    ],
)
def test_moses_restores_a_sentence(language: str, text: str, whole: set[str]) -> None:
    moses = make_tokenizer("moses", language)
    tokens = moses.tokenize(text)
    assert whole < set(tokens)  # special characters are not escaped: " is not &quot;
    assert "".join(tokens) == text.replace(" ", "")
    assert moses.detokenize(tokens) == text


def test_bpe_joins_subwords() -> None:
    bpe = make_tokenizer("bpe", "")
    tokens = bpe.tokenize("ein@@ ge@@ stellte S@@ ätze @")
    assert tokens == ["ein@@", "ge@@", "stellte", "S@@", "ätze", "@"]
    assert bpe.detokenize(tokens) == "eingestellte Sätze @"
    # A model may stop within a word, so detokenize also removes the last "@@".
    assert bpe.detokenize(["ein@@", "ge@@"]) == "einge"
    assert bpe.detokenize([]) == ""


@settings(deadline=None)
@given(TEXTS)
def test_characters_restore_the_text(text: str) -> None:
    characters = make_tokenizer("characters", "")
    assert characters.tokenize(text) == [*text]
    assert characters.detokenize([*text]) == text


@settings(deadline=None)
@given(TEXTS)
def test_split_restores_the_text_up_to_whitespace(text: str) -> None:
    split = make_tokenizer("split", "")
    assert split.tokenize(text) == text.split()
    assert split.detokenize(text.split()) == " ".join(text.split())


@pytest.mark.parametrize("name", TOKENIZERS)
def test_an_empty_text_has_no_tokens(name: str) -> None:
    tokenizer = make_tokenizer(name, "en")
    assert tokenizer.tokenize("") == []
    assert tokenizer.detokenize([]) == ""
