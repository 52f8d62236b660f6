"""Sequences with a label at every step: an artificial series, columns of text, piano rolls.

A corpus is a function from the `data` part of a config and a split's own name to sequences; its
kind says what the labels are.
"""

import functools
import itertools
import logging
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from configs.base import Config
from data.files import find, lines, read_split, refuse_nothing, split_files, split_names
from data.labels import Labels
from data.store import Field, Fields, Prepared, Writer, cached, progress, rectangle
from data.tokenizers import make_tokenizer
from data.vocabulary import WordVocabulary
from errors import UserError

logger = logging.getLogger("alignax")
NOTES = 88  # of a piano
COMMON = ("corpus", "splits", "max_length")
SHAPING_OF = {
    "series": ("seed", "examples", "series_length"),
    "series_classes": ("seed", "examples", "series_length"),
    "columns": ("files", "holdout", "columns", "inputs", "suffix", "vocab"),
    "polymusic": ("files",),
}
KINDS = {  # of labels: numbers, one class a step, or notes of which several can sound
    "series": "values",
    "series_classes": "classes",
    "columns": "classes",
    "polymusic": "notes",
}


class Labelled(NamedTuple):
    """One sequence: its columns by name, all of one length ("line": where in a file they stand)."""

    columns: dict[str, Any]
    place: str  # of the whole

    def place_of(self, step: int) -> str:
        if "line" in self.columns:
            return f"{self.place}, line {self.columns['line'][step]}"
        return f"{self.place}, step {step}"

    def piece(self, first: int, last: int) -> "Labelled":
        return self._replace(columns={name: x[first:last] for name, x in self.columns.items()})


def read_sequences(data: Config, split: str) -> Iterator[Labelled]:
    """The sequences of a split ("train", "valid" or "test"); long ones in pieces, to train on."""
    # A frame of music is the label of the one before it, so pieces share the frame of the cut.
    shared = int(KINDS[data.corpus] == "notes")
    for sequence in read_split(data, split, CORPORA[data.corpus], _words):
        steps = len(next(iter(sequence.columns.values()))) - shared
        size = data.max_length if split == "train" else steps
        for first in range(0, steps, size):
            yield sequence.piece(first, first + size + shared)


def _words(sequence: Labelled) -> str:
    return " ".join(sequence.columns["word"])


def series(x: np.ndarray) -> np.ndarray:
    """The y(t) that Schuster 1997 makes of a series x(t): nearer steps weigh more, ten of the past
    and twenty from now on; those outside the series are dropped."""
    y = np.zeros_like(x)
    for shift in range(-10, 20):
        weight = (1 - abs(shift) / 10) / 10 if shift < 0 else (1 - shift / 20) / 20
        ahead = x[max(0, shift) : max(0, len(x) + min(0, shift))]
        first = max(0, -shift)
        y[first : first + len(ahead)] += weight * ahead
    return y


def _series(data: Config, split: str) -> Iterator[Labelled]:
    rng = np.random.default_rng((data.seed, zlib.crc32(split.encode())))
    for number in range(data.examples[split]):
        x = rng.uniform(size=data.series_length)
        y = series(x)
        columns = {"x": x[:, None], "label": y[:, None]}
        if data.corpus == "series_classes":
            columns["label"] = np.where(y > 0.5, "over", "under")
        yield Labelled(columns, f"{split} series {number}")


def _columns(data: Config, split: str) -> Iterator[Labelled]:
    path = find(data, split)
    rows: list[list[str]] = []
    for number, line in enumerate(itertools.chain(lines(path), [""]), 1):
        fields = line.split()
        if not fields:
            if rows:
                own = dict(zip(data.columns, map(list, zip(*rows, strict=True)), strict=True))
                yield Labelled(own | {"line": range(number - len(rows), number)}, str(path))
            rows = []
        elif len(fields) != len(data.columns):
            raise UserError(
                f"{path}, line {number}: {len(data.columns)} columns are wanted "
                f"({', '.join(data.columns)}), not {len(fields)}: mend the line, or name yours, as "
                "\"--config.data.columns=('word','label')\""
            )
        else:
            rows.append(fields)


def _polymusic(data: Config, split: str) -> Iterator[Labelled]:
    import scipy.io
    from scipy.io.matlab import MatReadError

    path = find(data, split)
    try:
        content = scipy.io.loadmat(path, variable_names=[split])
    except (ValueError, TypeError, NotImplementedError, OSError, MatReadError) as error:
        raise UserError(f"{path} is no MATLAB file ({error}): fetch it anew") from None
    if split not in content:
        known = ", ".join(name for name, *_ in scipy.io.whosmat(path))
        raise UserError(f"{path} has no variable {split!r}: data.splits can name {known}")
    for number, frames in enumerate(content[split].ravel()):
        if frames.ndim != 2 or frames.shape[1] != NOTES or len(frames) < 2:
            raise UserError(
                f"{path}, {split} {number}: at least 2 frames of {NOTES} notes are wanted, not "
                f"{' × '.join(map(str, frames.shape))}"
            )
        if not np.isin(frames, (0, 1)).all():
            raise UserError(f"{path}, {split} {number}: notes are wanted as 0 and 1")
        yield Labelled({"label": frames.astype(np.uint8)}, f"{path}, {split} {number}")


CORPORA: dict[str, Callable[[Config, str], Iterator[Labelled]]] = {
    "series": _series,
    "series_classes": _series,
    "columns": _columns,
    "polymusic": _polymusic,
}


def fields_of(data: Config) -> Fields:
    """What an example is made of."""
    step = Field(("step",))
    if data.corpus == "polymusic":  # the label is the next frame, so frames are kept once
        return {"length": Field(), "label": Field(("step", NOTES), np.uint8)}
    if data.corpus == "columns":
        inputs = dict.fromkeys(data.inputs, step)
        if "characters" in inputs:
            inputs["characters"] = Field(("step", "character"))
        return {"length": Field(), **inputs, "label": step}
    label = Field(("step", 1), np.float32) if KINDS[data.corpus] == "values" else step
    return {"length": Field(), "x": Field(("step", 1), np.float32), "label": label}


def prepare(data: Config) -> Prepared:
    """The prepared form of the corpus that `data` describes, made now if the cache lacks it."""
    files = split_files(data) if data.corpus in ("columns", "polymusic") else []
    shaping = (*COMMON, *SHAPING_OF[data.corpus])
    folder = cached(data, shaping, files, data.corpus, functools.partial(_make, data))
    return Prepared(folder, fields_of(data), _load(data, folder))


def _make(data: Config, folder: Path) -> dict[str, Any]:
    if KINDS[data.corpus] == "classes":
        every = (sequence.columns["label"] for sequence in read_sequences(data, "train"))
        labels = Labels.learn(map(str, itertools.chain.from_iterable(every)))
        Labels(_with_both_marks(labels)).save(folder / "label.vocab")
    for name in data.inputs if data.corpus == "columns" else ():
        words = (
            " ".join(input_column(name, sequence.columns, data))
            for sequence in progress(read_sequences(data, "train"), f"vocabulary ({name})")
        )
        _learn(data, name, words).save(folder / f"{name}.vocab")
    vocabularies = _load(data, folder)
    counts = {name: _write(data, name, vocabularies, folder) for name in split_names(data)}
    return {"counts": counts, "vocabulary": {name: len(v) for name, v in vocabularies.items()}}


def _with_both_marks(labels: Labels) -> list[str]:
    """Of chunks, labels in twos: a kind that can begin (B-LST) can go on (I-LST), even where the
    training text has but short ones, as that of CoNLL-2000 does."""
    return sorted({*labels.names, *(f"{mark}-{kind}" for mark in "BI" for kind in labels.chunks)})


def input_column(name: str, columns: dict[str, list[str]], data: Config) -> list[str]:
    """The column called `name`, or what is made of the words."""
    if name == "suffix":
        return [word[-data.suffix :].lower() for word in columns["word"]]
    return columns["word"] if name == "characters" else columns[name]


def _settings(data: Config, name: str) -> Config:
    """Of the vocabulary of an input. Only that of words is to choose: the others are small."""
    if name == "word":
        return data.vocab
    tokenizer = "characters" if name == "characters" else "split"
    return ConfigDict({"tokenizer": tokenizer, "lowercase": False})


def _learn(data: Config, name: str, texts: Iterator[str]) -> WordVocabulary:
    settings = _settings(data, name)
    if name == "word":
        return WordVocabulary.learn(texts, settings, name)
    tokenizer = make_tokenizer(settings.tokenizer, "")
    symbols = {token for text in texts for token in tokenizer.tokenize(text)}
    return WordVocabulary(sorted(symbols), tokenizer, lowercase=False)


def _load(data: Config, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if KINDS[data.corpus] == "classes":
        found["label"] = Labels.load(folder / "label.vocab")
    for name in data.inputs if data.corpus == "columns" else ():
        path = folder / f"{name}.vocab"
        found[name] = WordVocabulary.load(path, _settings(data, name), name)
    return found


def _write(data: Config, split: str, vocabularies: dict[str, Any], folder: Path) -> dict[str, int]:
    kept = steps = 0
    with Writer(folder, split, fields_of(data)) as writer:
        for sequence in progress(read_sequences(data, split), split):
            own = _encode(data, sequence, vocabularies)
            kept, steps = kept + 1, steps + len(own["label"])
            shown = {}
            if data.corpus == "columns":
                shown = {name: sequence.columns[name] for name in data.columns}
            writer.add(own | {"length": len(own["label"])}, shown)
    refuse_nothing(kept, data, split)
    logger.info("%s: %s sequences, %s steps", split, f"{kept:,}", f"{steps:,}")
    return {"sequences": kept, "steps": steps}


def _encode(data: Config, sequence: Labelled, vocabularies: dict[str, Any]) -> dict[str, Any]:
    columns = dict(sequence.columns)
    own: dict[str, Any] = {name: columns[name] for name in ("x", "label") if name in columns}
    if "label" in vocabularies:
        own["label"] = [
            vocabularies["label"].encode(str(label), sequence.place_of(step))
            for step, label in enumerate(columns["label"])
        ]
    for name in data.inputs if data.corpus == "columns" else ():
        words = input_column(name, columns, data)
        if name == "characters":
            own[name] = rectangle([vocabularies[name].encode(word) for word in words])
        else:
            own[name] = vocabularies[name].encode(" ".join(words))
    return own
