"""Corpora of sequences with one label per time step: artificial series, text columns, piano rolls.

The kind of the labels depends on the corpus: numbers, class labels or sets of notes (see `KINDS`).
"""

import functools
import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from configs.base import Config
from data.corpus import NO_INITIAL, Corpus, Encoded
from data.files import find, lines, only_file
from data.labels import LABEL_SETTINGS, Labels
from data.store import ArrayField, ArrayFields, pad_rows
from data.tokenizers import make_tokenizer
from data.vocabulary import WordVocabulary, shared_settings
from errors import UserError

NOTES = 88  # notes per music frame: the number of keys of a piano
KINDS = {  # kind of the labels per corpus; a "notes" label is the set of notes that sound
    "series": "values",
    "series_classes": "classes",
    "columns": "classes",
    "polymusic": "notes",
}


class Labelled(NamedTuple):
    """One sequence: named columns with one entry per time step, and its place for error messages.

    The place names the file, the piece of music or the series. The column "line", if present,
    contains the line numbers in the file.
    """

    columns: dict[str, Any]
    place: str

    def place_of(self, step: int) -> str:
        """Return the file and line of a time step, or its index, for error messages."""
        if "line" in self.columns:
            return f"{self.place}, line {self.columns['line'][step]}"
        return f"{self.place}, time step {step}"

    def piece(self, first: int, last: int) -> "Labelled":
        """Return the time steps first, ..., last - 1 as a sequence."""
        return self._replace(columns={name: x[first:last] for name, x in self.columns.items()})


def series(x: np.ndarray) -> np.ndarray:
    """Return the target series y(t) of Schuster 1997 for an input series x(t).

    y(t) is a weighted sum of x over the ten time steps before t and the twenty time steps from t
    on. Weights decrease with the distance from t; time steps outside the series contribute nothing.
    """
    y = np.zeros_like(x)
    for shift in range(-10, 20):
        weight = (1 - abs(shift) / 10) / 10 if shift < 0 else (1 - shift / 20) / 20
        shifted = x[max(0, shift) : max(0, len(x) + min(0, shift))]
        first = max(0, -shift)
        y[first : first + len(shifted)] += weight * shifted
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
    """Read sentences: one word and its columns per line, and a blank line between sentences."""
    hint = "set the names of the columns, for example \"--config.data.columns=('word','label')\""
    return _sequences(find(data, split), data.columns, hint)


def _sequences(path: Path, names: Sequence[str], hint: str) -> Iterator[Labelled]:
    """Read sequences from a file with the columns `names`; an error message ends in `hint`."""
    rows: list[list[str]] = []
    for number, line in enumerate(itertools.chain(lines(path), [""]), 1):
        fields = line.split()
        if not fields:
            if rows:
                by_column = map(list, zip(*rows, strict=True))
                columns: dict[str, Any] = dict(zip(names, by_column, strict=True))
                columns["line"] = range(number - len(rows), number)
                yield Labelled(columns, str(path))
            rows = []
        elif len(fields) != len(names):
            raise UserError(
                f"{path}, line {number}: expected {len(names)} columns ({', '.join(names)}), found "
                f"{len(fields)}: correct the line, or {hint}"
            )
        else:
            rows.append(fields)


def _series_of_numbers(path: Path, kind: str) -> Iterator[Labelled]:
    """Read series from a file with the columns x and label, which is a number or a class."""
    hint = "separate the series by blank lines"
    for sequence in _sequences(path, ("x", "label"), hint):
        numbers = ("x", "label") if kind == "values" else ("x",)
        for name in numbers:
            values = [
                _number(text, sequence.place_of(step))
                for step, text in enumerate(sequence.columns[name])
            ]
            sequence.columns[name] = np.array(values)[:, None]
        yield sequence


def _number(text: str, place: str) -> float:
    try:
        number = float(text)
        if math.isfinite(number):
            return number
    except ValueError:
        pass
    raise UserError(f"{place}: expected a number, found {text[:40]!r}: correct the line")


def _polymusic(data: Config, split: str) -> Iterator[Labelled]:
    """Read piano rolls from a MATLAB file that has one variable per split."""
    return _piano_rolls(find(data, split), split)


def _piano_rolls(path: Path, split: str) -> Iterator[Labelled]:
    """Read piano rolls from the variable `split` of a MATLAB file."""
    import scipy.io  # imported here: only music corpora need scipy.io
    from scipy.io.matlab import MatReadError

    try:
        content = scipy.io.loadmat(path, variable_names=[split])
    except (ValueError, TypeError, NotImplementedError, OSError, MatReadError) as error:
        raise UserError(f"{path} is not a MATLAB file ({error}): download it again") from None
    if split not in content:
        known = ", ".join(name for name, *_ in scipy.io.whosmat(path))
        raise UserError(
            f"{path} has no variable {split!r}: set the fields of data.splits to variables of the "
            f"file ({known}), or, in a test set, rename the variable"
        )
    for number, frames in enumerate(content[split].ravel()):
        place = f"{path}, {split} {number}"
        if frames.ndim != 2 or frames.shape[1] != NOTES or len(frames) < 2:
            raise UserError(
                f"{place}: expected at least 2 frames of {NOTES} notes, found an array of shape "
                f"{' × '.join(map(str, frames.shape))}: correct the file, or download it again"
            )
        if not np.isin(frames, (0, 1)).all():
            raise UserError(
                f"{place}: the values of a piano roll must be 0 (silent) or 1 (sounding), but the "
                "array has other values: correct the file, or download it again"
            )
        yield Labelled({"label": frames.astype(np.uint8)}, place)


CORPORA: dict[str, Callable[[Config, str], Iterator[Labelled]]] = {
    "series": _series,
    "series_classes": _series,
    "columns": _columns,
    "polymusic": _polymusic,
}


class LabellingCorpus(Corpus[Labelled]):
    """A corpus of sequences with one label per time step."""

    readers = CORPORA
    without_files = ("series", "series_classes")
    unit = "sequences"
    counted = {"steps": "time steps"}

    def __init__(self, data: Config, initial: Mapping[str, Path] = NO_INITIAL):
        super().__init__(data, initial)
        self.kind = KINDS[data.corpus]
        self.inputs: tuple[str, ...] = data.inputs if data.corpus == "columns" else ()

    @property
    def label(self) -> str:
        return self.data.corpus

    @property
    def fields(self) -> ArrayFields:
        step = ArrayField(("step",))
        if self.kind == "notes":  # the inputs are also frames: each label is the next frame
            return {"length": ArrayField(), "label": ArrayField(("step", NOTES), np.uint8)}
        if self.data.corpus == "columns":
            inputs = dict.fromkeys(self.inputs, step)
            if "characters" in inputs:
                inputs["characters"] = ArrayField(("step", "character"))
            return {"length": ArrayField(), **inputs, "label": step}
        label = ArrayField(("step", 1), np.float32) if self.kind == "values" else step
        return {"length": ArrayField(), "x": ArrayField(("step", 1), np.float32), "label": label}

    def holdout_key(self, example: Labelled) -> str:
        return " ".join(example.columns["word"])

    def read(self, split: str) -> Iterator[Labelled]:
        """Yield the sequences of a split.

        Training sequences are split into pieces of at most `data.max_length` time steps.
        """
        # The label of a music frame is the next frame, so consecutive pieces share a frame.
        shared = int(self.kind == "notes")
        for sequence in super().read(split):
            steps = len(sequence.columns["label"]) - shared
            size = self.data.max_length if split == "train" else steps
            for first in range(0, steps, size):
                yield sequence.piece(first, first + size + shared)

    def read_files(self, paths: Sequence[Path]) -> Iterator[Labelled]:
        """Yield the sequences of a file in the format of the corpus.

        The corpora of artificial series have no files, so their test sets are files with the
        columns x and label, one time step per line and a blank line between series. In a MATLAB
        file, the variable with the name of the corpus's test split is read.
        """
        data, path = self.data, only_file(paths)
        if data.corpus == "columns":
            hint = f"use a file with the columns of the run's corpus ({', '.join(data.columns)})"
            return _sequences(path, data.columns, hint)
        if data.corpus == "polymusic":
            return _piano_rolls(path, data.splits.test or "test")
        return _series_of_numbers(path, self.kind)

    def learn_vocabularies(self) -> Iterator[tuple[str, Labels | WordVocabulary]]:
        if self.kind == "classes":
            yield "label", self.choose_vocabulary("label", self._learn_labels, Labels.load)
        for name in self.inputs:
            learn = functools.partial(self._learn_input, name)
            settings = self._vocab_settings(name)
            load = functools.partial(WordVocabulary.load, settings=settings, language=name)
            yield name, self.choose_vocabulary(name, learn, load)

    def vocabulary_settings(self) -> dict[str, dict[str, Any]]:
        labels = {"label": LABEL_SETTINGS} if self.kind == "classes" else {}
        inputs = {name: self._vocab_settings(name) for name in self.inputs}
        return labels | {name: shared_settings(settings) for name, settings in inputs.items()}

    def load_vocabularies(self, folder: Path) -> dict[str, Any]:
        vocabularies: dict[str, Any] = {}
        if self.kind == "classes":
            vocabularies["label"] = Labels.load(folder / "label.vocab")
        for name in self.inputs:
            path, settings = folder / f"{name}.vocab", self._vocab_settings(name)
            vocabularies[name] = WordVocabulary.load(path, settings, name)
        return vocabularies

    def encode(
        self, example: Labelled, split: str, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded:
        columns = example.columns
        fields = {name: columns[name] for name in ("x", "label") if name in columns}
        if self.kind == "classes":
            fields["label"] = [
                vocabularies["label"].encode(str(label), example.place_of(step))
                for step, label in enumerate(columns["label"])
            ]
        for name in self.inputs:
            words = self._input_column(name, example)
            if name == "characters":
                fields[name] = pad_rows([vocabularies[name].encode(word) for word in words])
            else:
                fields[name] = vocabularies[name].encode(" ".join(words))
        fields["length"] = len(fields["label"])
        counts["steps"] += fields["length"]
        text = {}
        if self.data.corpus == "columns":
            text = {name: columns[name] for name in self.data.columns}
        return fields, text

    def _input_column(self, name: str, sequence: Labelled) -> list[str]:
        """Return one string per time step for the input `name`, such as "word".

        The strings of "suffix" are word endings, and those of "characters" are whole words. Any
        other input is a column of the file.
        """
        words = sequence.columns["word"]
        if name == "suffix":
            return [word[-self.data.suffix :].lower() for word in words]
        return words if name == "characters" else sequence.columns[name]

    def _vocab_settings(self, name: str) -> Config:
        """Return the vocabulary settings of an input; only "word" takes them from the config."""
        if name == "word":
            return self.data.vocab
        tokenizer = "characters" if name == "characters" else "split"
        return ConfigDict({"kind": "words", "tokenizer": tokenizer, "lowercase": False})

    def _learn_labels(self) -> Labels:
        columns = (sequence.columns["label"] for sequence in self.read_train("labels"))
        labels = Labels.learn(map(str, itertools.chain.from_iterable(columns)))
        return Labels(_with_both_prefixes(labels))

    def _learn_input(self, name: str) -> WordVocabulary:
        settings = self._vocab_settings(name)
        texts = (
            " ".join(self._input_column(name, sequence))
            for sequence in self.read_train(f"vocabulary ({name})")
        )
        if name == "word":
            return WordVocabulary.learn(texts, settings, name)
        tokenizer = make_tokenizer(settings.tokenizer, "")
        symbols = {token for text in texts for token in tokenizer.tokenize(text)}
        return WordVocabulary(sorted(symbols), tokenizer, lowercase=False)


def _with_both_prefixes(labels: Labels) -> list[str]:
    """Return the labels, and for every chunk type X both labels B-X and I-X.

    In CoNLL-2000, all training chunks of type LST are one word long, so I-LST occurs only in the
    test split.
    """
    both = {f"{prefix}-{kind}" for prefix in "BI" for kind in labels.chunks}
    return sorted({*labels.names, *both})
