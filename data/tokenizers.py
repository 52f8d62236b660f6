"""Text to word tokens and back.

A tokenizer is a pair of functions. `detokenize(tokenize(text))` gives the text back up to white
space (moses: up to its own normalisation).
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

JOINER = "￭"  # marks a token that was glued to the one before it: "März," -> "März ￭,"


class Tokenizer(NamedTuple):
    tokenize: Callable[[str], list[str]]
    detokenize: Callable[[list[str]], str]
    surface: Callable[[str], str] = str  # a corpus line as one should read it, to score against
    words: Callable[[str], list[str]] = str.split  # of such a line, as the papers' BLEU counts


_WORD_OR_SIGN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
_WORD_DIGIT_OR_SIGN = re.compile(r"[^\W\d]+|\d|[^\w\s]")


def _unicode_tokenize(text: str) -> list[str]:
    tokens, end = [], 0
    for match in _WORD_DIGIT_OR_SIGN.finditer(text):
        glued = match.start() == end and end > 0
        tokens.append(JOINER * glued + match.group())
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
    import sacremoses  # slow to import, needed by few corpora

    tokenizer = sacremoses.MosesTokenizer(lang=language)
    detokenizer = sacremoses.MosesDetokenizer(lang=language)

    def tokenize(text: str) -> list[str]:
        return list(tokenizer.tokenize(text, escape=False))

    detokenize = functools.partial(detokenizer.detokenize, unescape=False)
    return Tokenizer(tokenize, detokenize, words=tokenize)


TOKENIZERS: dict[str, Callable[[str], Tokenizer]] = {
    # words, single digits and signs of any script; reversible through the joiner mark
    "unicode": lambda language: Tokenizer(
        _unicode_tokenize, _unicode_detokenize, words=_unicode_words
    ),
    "moses": _moses,
    # words (don't is one) and signs, without marks, for texts that are read and never written
    "plain": lambda language: Tokenizer(_WORD_OR_SIGN.findall, _join),
    # the text is split already: by spaces, or by spaces into pieces that end in @@
    "split": lambda language: Tokenizer(str.split, _join),
    "bpe": lambda language: Tokenizer(str.split, _join_bpe, lambda line: _join_bpe(line.split())),
    "characters": lambda language: Tokenizer(list, "".join),
}


@functools.cache
def make_tokenizer(name: str, language: str) -> Tokenizer:
    """The tokenizer called `name` for text in `language` (an ISO 639 code; only moses uses it)."""
    return TOKENIZERS[name](language)
