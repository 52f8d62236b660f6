"""Tokenizers: text to tokens and back.

`detokenize(tokenize(text))` restores the text up to white space (moses: up to its normalization;
plain: tokens separated by spaces).
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

JOINER = "￭"  # marks a token that had no space before it: "März," -> "März ￭,"


class Tokenizer(NamedTuple):
    tokenize: Callable[[str], list[str]]
    detokenize: Callable[[list[str]], str]
    # Turns a line of the corpus into readable text, the reference of scores (bpe: joins subwords).
    surface: Callable[[str], str] = str
    # Splits readable text into the words that the BLEU of the papers counts.
    words: Callable[[str], list[str]] = str.split


_WORD_OR_SIGN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_WORD_DIGIT_OR_SIGN = re.compile(r"[^\W\d]+|\d|[^\w\s]")


def _unicode_tokenize(text: str) -> list[str]:
    tokens, end = [], 0
    for match in _WORD_DIGIT_OR_SIGN.finditer(text):
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
    import sacremoses  # slow to import, and few corpora need it

    tokenizer = sacremoses.MosesTokenizer(lang=language)
    detokenizer = sacremoses.MosesDetokenizer(lang=language)

    def tokenize(text: str) -> list[str]:
        return list(tokenizer.tokenize(text, escape=False))

    detokenize = functools.partial(detokenizer.detokenize, unescape=False)
    return Tokenizer(tokenize, detokenize, words=tokenize)


TOKENIZERS: dict[str, Callable[[str], Tokenizer]] = {
    # Words, single digits and single signs of any script; reversible by means of JOINER.
    "unicode": lambda language: Tokenizer(
        _unicode_tokenize, _unicode_detokenize, words=_unicode_words
    ),
    "moses": _moses,
    # Words ("don't" is one) and signs, not reversible: for texts that a model only reads.
    "plain": lambda language: Tokenizer(_WORD_OR_SIGN.findall, _join),
    # The corpus is tokenized already, with spaces between tokens. In bpe, subwords end in @@
    # unless they are the last of their word.
    "split": lambda language: Tokenizer(str.split, _join),
    "bpe": lambda language: Tokenizer(str.split, _join_bpe, lambda line: _join_bpe(line.split())),
    "characters": lambda language: Tokenizer(list, "".join),
}


@functools.cache
def make_tokenizer(name: str, language: str) -> Tokenizer:
    """Return the tokenizer `name` for text in `language` (an ISO 639 code; only moses uses it)."""
    return TOKENIZERS[name](language)
