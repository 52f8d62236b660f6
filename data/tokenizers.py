"""Tokenizers, which split text into tokens and join tokens to text.

`detokenize(tokenize(text))` restores the text up to whitespace. Two tokenizers are not reversible:
moses also normalizes some characters, and plain returns tokens separated by spaces.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

JOINER = "￭"  # prefix of a token that has no space before it in the text: "März," -> "März ￭,"
SPACE = "▁"  # SentencePiece's character for the space before a word
CONTINUED = "@@"  # suffix of a subword that is continued by the next one, in BPE text


def without_marks(token: str) -> str:
    """Return a token without the marks that say how it is joined to its neighbors."""
    return token.removeprefix(JOINER).removeprefix(SPACE).removesuffix(CONTINUED)


class Tokenizer(NamedTuple):
    """The functions of a tokenizer."""

    tokenize: Callable[[str], list[str]]
    detokenize: Callable[[list[str]], str]
    # Converts a corpus line to readable text, which metrics use as the reference; the tokenizer bpe
    # joins subwords to words.
    surface: Callable[[str], str] = str
    # Splits detokenized text into words, for tokenized BLEU as the papers report it.
    words: Callable[[str], list[str]] = str.split


_WORD_OR_SIGN = r"\w+(?:['’]\w+)*|[^\w\s]"
_WORD_DIGIT_OR_SIGN = r"[^\W\d]+|\d|[^\w\s]"
# The same patterns for text with marks, for which M stands: a mark belongs to the character before.
_MARKED_WORD_OR_SIGN = r"\w(?:\w|M)*(?:['’]\w(?:\w|M)*)*|[^\w\s]M*"
_MARKED_WORD_DIGIT_OR_SIGN = r"(?:[^\W\d]+M*)+|\dM*|[^\w\s]M*"


@functools.cache
def _mark() -> re.Pattern[str]:
    """Return a pattern of all combining marks and of the zero-width joiners.

    Python's \\w excludes them, although they are parts of words, such as the vowels of Hindi and
    the points of Hebrew.
    """
    points = itertools.chain(range(0x300, 0x20000), range(0xE0100, 0xE01F0))
    marks = "".join(c for c in map(chr, points) if unicodedata.category(c).startswith("M"))
    return re.compile(f"[{marks}\u200c\u200d]")


@functools.cache
def _marked(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("M", _mark().pattern))


def _pattern(text: str, pattern: str, marked: str) -> re.Pattern[str]:
    """Return the pattern for a text; that for text with marks is several times as slow."""
    has_marks = not text.isascii() and _mark().search(text)
    return _marked(marked) if has_marks else re.compile(pattern)


def _plain_tokenize(text: str) -> list[str]:
    return _pattern(text, _WORD_OR_SIGN, _MARKED_WORD_OR_SIGN).findall(text)


def _unicode_tokenize(text: str) -> list[str]:
    tokens, end = [], 0
    pattern = _pattern(text, _WORD_DIGIT_OR_SIGN, _MARKED_WORD_DIGIT_OR_SIGN)
    for match in pattern.finditer(text):
        joined = match.start() == end and end > 0
        tokens.append(JOINER * joined + match.group())
        end = match.end()
    return tokens


def _unicode_words(text: str) -> list[str]:
    return [token.removeprefix(JOINER) for token in _unicode_tokenize(text)]


def _unicode_detokenize(tokens: list[str]) -> str:
    return " ".join(tokens).replace(" " + JOINER, "").removeprefix(JOINER)


def _join(tokens: list[str]) -> str:
    return " ".join(tokens)


def _join_bpe(tokens: list[str]) -> str:
    return (" ".join(tokens) + " ").replace("@@ ", "").strip()


def _moses(language: str) -> Tokenizer:
    import sacremoses  # imported here: slow to import, and few corpora need it

    tokenizer = sacremoses.MosesTokenizer(lang=language)
    detokenizer = sacremoses.MosesDetokenizer(lang=language)

    def tokenize(text: str) -> list[str]:
        return list(tokenizer.tokenize(text, escape=False))

    detokenize = functools.partial(detokenizer.detokenize, unescape=False)
    return Tokenizer(tokenize, detokenize, words=tokenize)


TOKENIZERS: dict[str, Callable[[str], Tokenizer]] = {
    # Words, single digits and single punctuation marks of any script. JOINER makes this tokenizer
    # reversible.
    "unicode": lambda language: Tokenizer(
        _unicode_tokenize, _unicode_detokenize, words=_unicode_words
    ),
    "moses": _moses,
    # Words (such as "don't") and punctuation. This tokenizer is not reversible, so it suits
    # classification but not translation.
    "plain": lambda language: Tokenizer(_plain_tokenize, _join),
    # split and bpe are for corpora that are already tokenized, with spaces between tokens. In bpe,
    # every subword of a word except the last ends in @@.
    "split": lambda language: Tokenizer(str.split, _join),
    "bpe": lambda language: Tokenizer(str.split, _join_bpe, lambda line: _join_bpe(line.split())),
    "characters": lambda language: Tokenizer(list, "".join),
}


def normalized(text: str, lowercase: bool = False) -> str:
    """Return a text in the Unicode form NFC, in lower case if `lowercase`."""
    return unicodedata.normalize("NFC", text.lower() if lowercase else text)


@functools.cache
def make_tokenizer(name: str, language: str) -> Tokenizer:
    """Return the tokenizer `name` for text in `language` (an ISO 639 code that only moses uses)."""
    return TOKENIZERS[name](language)
