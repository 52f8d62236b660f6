"""Corpora of sequences with one label per time step: artificial series, text columns, piano rolls.

The kind of the labels depends on the corpus: numbers, class labels or sets of notes (see `KINDS`).
"""

import functools
import io
import itertools
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from ml_collections import ConfigDict

from configs.base import Config
from data.corpus import NO_INITIAL, Encoded
from data.files import blocks, find, lines, only_file
from data.inputs import STREAM, Input, LabelledCorpus, decoded_lines, is_words
from data.labels import LABEL_SETTINGS, Labels
from data.music import NOTES, check_roll, mat_arrays, mat_variables
from data.series import check_series, parse_number
from data.store import ArrayField, ArrayFields, pad_rows
from data.tokenizers import make_tokenizer
from data.vocabulary import WordVocabulary, shared_settings
from errors import UserError

logger = logging.getLogger("alignax")

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


def _sequences(path: Path, names: tuple[str, ...], hint: str) -> Iterator[Labelled]:
    """Read sequences from a file with the columns `names`; an error message ends in `hint`."""
    for first, block in blocks(lines(path)):
        advice = f"correct the line, or {hint}"
        columns: dict[str, Any] = _table(block, first, str(path), [names], advice)
        columns["line"] = range(first, first + len(block))
        yield Labelled(columns, str(path))


def _table(
    block: list[str], first: int, name: str, layouts: Sequence[tuple[str, ...]], advice: str
) -> dict[str, list[str]]:
    """Split the lines of a sentence into named columns.

    The number of columns in the first line decides which of the `layouts` (names of columns)
    applies. `first` is the number of this line in the file `name`, for the error message.
    """
    rows = [line.split() for line in block]
    by_size = {len(layout): layout for layout in layouts}
    names = by_size.get(len(rows[0]), layouts[0])
    for number, row in enumerate(rows, first):
        if len(row) != len(names):
            expected = " or ".join(
                f"{n} column{'s' if n > 1 else ''} ({', '.join(by_size[n])})" for n in by_size
            )
            raise UserError(
                f"{name}, line {number}: expected {expected}, found {len(row)}: {advice}"
            )
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _series_of_numbers(path: Path, kind: str) -> Iterator[Labelled]:
    """Read series from a file with the columns x and label, which is a number or a class."""
    hint = "separate the series by blank lines"
    for sequence in _sequences(path, ("x", "label"), hint):
        numbers = ("x", "label") if kind == "values" else ("x",)
        for name in numbers:
            values = [
                parse_number(text, sequence.place_of(step))
                for step, text in enumerate(sequence.columns[name])
            ]
            sequence.columns[name] = np.array(values)[:, None]
        yield sequence


def _polymusic(data: Config, split: str) -> Iterator[Labelled]:
    """Read piano rolls from a MATLAB file that has one variable per split."""
    return _piano_rolls(find(data, split), split)


def _piano_rolls(path: Path, split: str) -> Iterator[Labelled]:
    """Read piano rolls from the variable `split` of a MATLAB file."""
    if split not in (known := mat_variables(path, str(path))):
        raise UserError(
            f"{path} has no variable {split!r}: set the fields of data.splits to variables of the "
            f"file ({', '.join(known)}), or, in a test set, rename the variable"
        )
    for value, place in mat_arrays(path, str(path), split):
        yield Labelled({"label": check_roll(value, place, least=2)}, place)


CORPORA: dict[str, Callable[[Config, str], Iterator[Labelled]]] = {
    "series": _series,
    "series_classes": _series,
    "columns": _columns,
    "polymusic": _polymusic,
}


class LabellingCorpus(LabelledCorpus[Labelled]):
    """A corpus of sequences with one label per time step."""

    readers = CORPORA
    without_files = ("series", "series_classes")
    unit = "sequences"
    count_messages = {"steps": "time steps"}

    def __init__(self, data: Config, initial: Mapping[str, Path] = NO_INITIAL):
        super().__init__(data, initial)
        self.kind = KINDS[data.corpus]
        self.inputs: tuple[str, ...] = data.inputs if data.corpus == "columns" else ()
        # The columns that new input must have: the words, and those that the model reads.
        self._needed = tuple(name for name in data.columns if name in ("word", *self.inputs))
        self.ends_at_blank_line = data.corpus == "columns" and self._needed != ("word",)
        if self.ends_at_blank_line:
            self.typed = f"one word per line ({' '.join(self._needed)})"
        elif data.corpus == "columns":
            self.typed = "one sentence per line, with spaces between its words"
        else:
            self.typed = "the numbers of one series per line, with spaces between them"

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
        inputs = {name: shared_settings(self._vocab_settings(name)) for name in self.inputs}
        if "suffix" in inputs:
            inputs["suffix"]["length"] = self.data.suffix
        return labels | inputs

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
        columns, named = example.columns, {}
        if self.kind == "classes":
            ids = [
                vocabularies["label"].encode(str(label), example.place_of(step))
                for step, label in enumerate(columns["label"])
            ]
            example = example._replace(columns={**columns, "label": ids})
        if self.data.corpus == "columns":
            named = {"label": columns["label"]}
        encoded = self.encode_input(example, vocabularies, counts)
        assert encoded is not None, "readers yield no empty sequences"
        return encoded[0], {**encoded[1], **named}

    def typed_lines(self, lines: list[str]) -> list[str]:
        return lines if self.ends_at_blank_line else lines[0].split()

    def read_inputs(self, lines: Iterable[bytes]) -> Iterator[Input]:
        """Read sentences in columns, series with one number per line, or a MATLAB file.

        Sentences may have all columns of the corpus, all except the label, or only those that the
        model reads. A MATLAB file has one variable, or that of the test split.
        """
        if self.kind == "notes":
            yield from self._read_rolls(b"".join(lines))
            return
        unlabelled = tuple(name for name in self.data.columns if name != "label")
        told = False
        for first, block in blocks(decoded_lines(lines)):
            place = f"{STREAM}, line {first}"
            if self.data.corpus == "columns":
                layouts = [self._needed, unlabelled, self.data.columns]
                columns = _table(block, first, STREAM, layouts, "correct the line")
                ignored = ", ".join(name for name in columns if name not in self._needed)
                if ignored and not told:
                    logger.info(f"{place}: read as {', '.join(columns)}; ignored: {ignored}")
                    told = True
                yield columns, place
            else:
                yield (
                    [parse_number(x, f"{STREAM}, line {i}") for i, x in enumerate(block, first)],
                    place,
                )

    def _read_rolls(self, content: bytes) -> Iterator[Input]:
        known, wanted = mat_variables(io.BytesIO(content), STREAM), self.data.splits.test
        variable = known[0] if len(known) == 1 else wanted
        if variable not in known:
            raise UserError(
                f"{STREAM} has the variables {', '.join(known)}, but not {wanted!r}, that of the "
                "test split: use a MATLAB file with one variable"
            )
        yield from mat_arrays(io.BytesIO(content), STREAM, variable)

    def make_input(self, value: Any, place: str) -> Labelled:
        """Return a sequence, given the words of a sentence or a dictionary of columns.

        In other corpora, the value is an array: a series, or the frames of a piano roll.
        """
        if self.kind == "notes":
            # The label of a frame is the next frame, so the last frame is followed by a silent one.
            frames = np.pad(check_roll(value, place), ((0, 1), (0, 0)))
            return Labelled({"label": frames}, place)
        if self.data.corpus != "columns":
            x = check_series(value, place)
            label = np.zeros_like(x) if self.kind == "values" else np.zeros(len(x), int)
            return Labelled({"x": x, "label": label}, place)
        given: dict[str, Any] = value if isinstance(value, dict) else {"word": value}
        columns: dict[str, Any] = {name: given.get(name) for name in self._needed}
        for name in ("word", *self._needed):
            words = columns[name]
            if not is_words(words) or len(words) != len(columns["word"]):
                raise UserError(
                    f"{place}: a sentence must be a list of words, or a dictionary with lists of "
                    f"equal length; this run needs {', '.join(self._needed)}, but {name} is "
                    f"{words!r:.50}: correct the sentence"
                )
        return Labelled({**columns, "label": [0] * len(columns["word"])}, place)

    def encode_input(
        self, example: Labelled, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded | None:
        columns = example.columns
        if not len(columns["label"]):
            return None
        fields = {name: columns[name] for name in ("x", "label") if name in columns}
        for name in self.inputs:
            words = self._input_column(name, example)
            if name == "characters":
                fields[name] = pad_rows([vocabularies[name].encode(word) for word in words])
            else:
                fields[name] = vocabularies[name].encode(" ".join(words))
        fields["length"] = len(fields["label"])
        counts["steps"] += fields["length"]
        known = [name for name in self.data.columns if name in columns and name != "label"]
        return fields, {name: columns[name] for name in known}

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

    In CoNLL-2000, the label I-LST occurs only in the test split.
    """
    both = {f"{prefix}-{kind}" for prefix in "BI" for kind in labels.chunks}
    if added := ", ".join(sorted(both.difference(labels.names))):
        logger.info(f"labels added, which do not occur in training: {added}")
    return sorted({*labels.names, *both})
