"""Texts with a label: lines, tables, the TFDS catalogue; as one sequence or as sentences."""

import functools
import itertools
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configs.base import Config
from data.catalogue import read_catalogue
from data.files import find, lines, read_split, refuse_nothing, split_files, split_names
from data.labels import Labels
from data.store import Field, Fields, Prepared, Writer, cached, progress, rectangle
from data.vocabulary import VOCABULARIES, Vocabulary
from errors import UserError

logger = logging.getLogger("alignax")
SHAPING = (
    "corpus", "splits", "holdout", "files", "label", "text", "documents", "max_length",
    "max_sentences", "vocab",
)  # fmt: skip
SHAPING_OF = {"tfds": ("name",)}
_BREAK = re.compile(r"<br\s*/?>|\n")
# A full stop and what closes it; abbreviations are cut as well, which no reader of sentences minds
# much.
_END = re.compile(r"([.!?][\"'”’)\]]*)\s+")


class Text(NamedTuple):
    label: str
    text: str
    place: str


def read_texts(data: Config, split: str) -> Iterator[Text]:
    """The texts of a split ("train", "valid" or "test")."""
    for text in read_split(data, split, CORPORA[data.corpus], lambda text: text.text):
        if not text.label:
            raise UserError(f"{text.place}: this line has no label: give it one, or remove it")
        yield text


def sentences(text: str) -> list[str]:
    """A text at its line breaks, HTML's included, and at the ends of its sentences."""
    return [part for part in _END.sub(r"\1\n", _BREAK.sub("\n", text)).split("\n") if part.strip()]


def _lines(data: Config, split: str) -> Iterator[Text]:
    path = find(data, split)
    for number, line in enumerate(lines(path), 1):
        label, _, text = line.strip().partition(" ")
        yield Text(label, text, f"{path}, line {number}")


def _tsv(data: Config, split: str) -> Iterator[Text]:
    path, places = find(data, split), (int(data.label), int(data.text))
    for number, line in enumerate(lines(path), 1):
        columns, place = line.split("\t"), f"{path}, line {number}"
        if not line.strip():
            raise UserError(f"{place}: this line is empty: remove it")
        if len(columns) <= max(places):
            raise UserError(
                f"{place}: it has {len(columns)} of the columns that data.label={data.label} and "
                f"data.text={data.text} ask for, counted from 0"
            )
        yield Text(columns[places[0]].strip(), columns[places[1]], place)


def _tfds(data: Config, split: str) -> Iterator[Text]:
    wanted = {"label": data.label, "text": data.text}
    for number, example in enumerate(read_catalogue(data, split, wanted)):
        label, text = example[data.label], example[data.text]
        place = f"{data.name}, {split} example {number}"
        if not isinstance(text, bytes):
            raise UserError(f"{place}: data.text={data.text} is no text but {type(text).__name__}")
        if not isinstance(label, bytes | int | np.integer):
            raise UserError(
                f"{place}: data.label={data.label} is no class but {type(label).__name__}"
            )
        name = label.decode("utf-8") if isinstance(label, bytes) else str(label)
        yield Text(name, text.decode("utf-8"), place)


CORPORA: dict[str, Callable[[Config, str], Iterator[Text]]] = {
    "lines": _lines,
    "tsv": _tsv,
    "tfds": _tfds,
}


def fields_of(data: Config) -> Fields:
    """What an example is made of; words have id 0 where a sentence has ended."""
    axes = ("sentence", "word") if data.documents else ("word",)
    return {"words": Field(axes), "label": Field()}


def prepare(data: Config) -> Prepared:
    """The prepared form of the corpus that `data` describes, made now if the cache lacks it."""
    files = [] if data.corpus == "tfds" else split_files(data)
    shaping = (*SHAPING, *SHAPING_OF.get(data.corpus, ()))
    folder = cached(data, shaping, files, f"texts-{data.corpus}", functools.partial(_make, data))
    return Prepared(folder, fields_of(data), _load(data, folder))


def _load(data: Config, folder: Path) -> dict[str, Any]:
    vocabulary = VOCABULARIES[data.vocab.kind].load(folder / "words.vocab", data.vocab, "en")
    return {"words": vocabulary, "label": Labels.load(folder / "label.vocab")}


def _make(data: Config, folder: Path) -> dict[str, Any]:
    Labels.learn(text.label for text in read_texts(data, "train")).save(folder / "label.vocab")
    texts = progress(read_texts(data, "train"), "vocabulary")
    parts = itertools.chain.from_iterable(sentences(text.text) for text in texts)
    VOCABULARIES[data.vocab.kind].learn(parts, data.vocab, "en").save(folder / "words.vocab")
    vocabularies = _load(data, folder)
    counts = {name: _write(data, name, vocabularies, folder) for name in split_names(data)}
    return {"counts": counts, "vocabulary": {name: len(v) for name, v in vocabularies.items()}}


def _write(data: Config, split: str, vocabularies: dict[str, Any], folder: Path) -> dict[str, int]:
    kept = cut = 0
    with Writer(folder, split, fields_of(data)) as writer:
        for text in progress(read_texts(data, split), split):
            parts, was_cut = tokens(data, vocabularies["words"], text)
            ids = [vocabularies["words"].ids(part) for part in parts]
            label = vocabularies["label"].encode(text.label, text.place)
            kept, cut = kept + 1, cut + was_cut
            shown = {"words": parts if data.documents else parts[0], "label": text.label}
            words = rectangle(ids) if data.documents else ids[0]
            writer.add({"words": words, "label": label}, shown)
    refuse_nothing(kept, data, split)
    logger.info("%s: %s texts, %s of them longer than is read", split, f"{kept:,}", f"{cut:,}")
    return {"texts": kept, "cut": cut}


def tokens(data: Config, vocabulary: Vocabulary, text: Text) -> tuple[list[list[str]], bool]:
    """The words that are read, by sentence (or all in one), and whether there were more."""
    found = [tokens for part in sentences(text.text) if (tokens := vocabulary.tokens(part))]
    if not found:
        raise UserError(f"{text.place}: this text has no sentence and no word: remove the line")
    if not data.documents:
        found = [list(itertools.chain.from_iterable(found))]
    read = [part[: data.max_length] for part in found[: data.max_sentences]]
    return read, read != found
