"""Vocabularies of an exported translation model.

A copy of this file is part of every exported translation model, next to a copy of
data/tokenizers.py. It uses no other file of Alignax.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from data.tokenizers import make_tokenizer, normalized

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")  # their ids are 0, 1, 2 and 3


class ExportedWords:
    """A vocabulary of words, saved as one word per line."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        self.all_tokens = path.read_bytes().decode("utf-8").split("\n")[:-1]
        self._ids = {token: i for i, token in enumerate(self.all_tokens)}
        self._lowercase = settings["lowercase"]
        self._tokenizer = make_tokenizer(settings["tokenizer"], settings["language"])

    def tokens(self, text: str) -> list[str]:
        """Split a text into tokens; special tokens in the text become <unk>."""
        tokens = self._tokenizer.tokenize(normalized(text, self._lowercase))
        return ["<unk>" if token in SPECIAL_TOKENS else token for token in tokens]

    def ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of tokens; an unknown token gets the id of <unk>."""
        return [self._ids.get(token, self._ids["<unk>"]) for token in tokens]

    def text(self, tokens: list[str]) -> str:
        """Join tokens to text."""
        return self._tokenizer.detokenize(["⁇" if token == "<unk>" else token for token in tokens])


class ExportedPieces:
    """A vocabulary of subwords, saved as a SentencePiece model."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        import sentencepiece

        self._lowercase = settings["lowercase"]
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
        size = self._processor.get_piece_size()
        self.all_tokens = [self._processor.id_to_piece(i) for i in range(size)]

    def tokens(self, text: str) -> list[str]:
        """Split a text into tokens."""
        return self._processor.encode(normalized(text, self._lowercase), out_type=str)

    def ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of tokens; an unknown token gets the id of <unk>."""
        return self._processor.piece_to_id(tokens)

    def text(self, tokens: list[str]) -> str:
        """Join tokens to text."""
        return self._processor.decode_pieces(tokens)


def read_sentences(lines: Iterable[bytes]) -> Iterator[str]:
    """Decode UTF-8 lines; a line that is not UTF-8 is treated as an empty line."""
    for number, line in enumerate(lines):
        try:
            yield line.decode("utf-8" if number else "utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            yield ""


def read_export(folder: Path) -> dict[str, Any]:
    """Return the content of export.json, which describes an exported model."""
    return json.loads((folder / "export.json").read_text("utf-8"))


def read_vocabulary(folder: Path, side: str) -> ExportedWords | ExportedPieces:
    """Return the vocabulary of a side, "source" or "target"."""
    settings = read_export(folder)[side]
    kind = ExportedWords if settings["kind"] == "words" else ExportedPieces
    return kind(folder / settings["file"], settings)
