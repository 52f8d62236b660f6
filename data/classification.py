"""Corpora of texts with one label each, read from text lines, TSV files or TFDS.

A prepared text is one sequence of token ids, or one sequence per sentence if `data.documents` is
set.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configs.base import Config
from data.catalog import read_catalog
from data.corpus import Encoded
from data.files import find, lines, only_file
from data.inputs import STREAM, Input, LabelledCorpus, decoded_lines
from data.labels import LABEL_SETTINGS, Labels
from data.store import ArrayField, ArrayFields, pad_rows
from data.tokenizers import normalized
from data.vocabulary import VOCABULARIES, Vocabulary, shared_settings
from errors import UserError

_LINE_BREAK = re.compile(r"<br\s*/?>|\n")
# Sentence-final punctuation, with closing quotes and brackets. The pattern also matches after some
# abbreviations, such as "Mr.", which hardly affects a hierarchical classifier.
_SENTENCE_END = re.compile(r"([.!?][\"'”’)\]]*)\s+")


class Text(NamedTuple):
    """One text with its label."""

    label: str
    text: str
    place: str  # file and line of the text, for error messages


def sentences(text: str) -> list[str]:
    """Split a text into sentences; line breaks and HTML <br> tags also end a sentence."""
    marked = _SENTENCE_END.sub(r"\1\n", _LINE_BREAK.sub("\n", text))
    return [sentence for sentence in marked.split("\n") if sentence.strip()]


def _lines(data: Config, split: str) -> Iterator[Text]:
    """Read labelled texts, one per line, in the format "LABEL TEXT"."""
    return _texts_of_lines(find(data, split))


def _texts_of_lines(path: Path) -> Iterator[Text]:
    for number, line in enumerate(lines(path), 1):
        label, _, text = line.strip().partition(" ")
        yield Text(label, text, f"{path}, line {number}")


def _tsv(data: Config, split: str) -> Iterator[Text]:
    """Read labelled texts, one per line; `data.label` and `data.text` are 0-based columns."""
    return _texts_of_columns(find(data, split), int(data.label), int(data.text))


def _texts_of_columns(path: Path, label: int, text: int) -> Iterator[Text]:
    for number, line in enumerate(lines(path), 1):
        columns, place = line.split("\t"), f"{path}, line {number}"
        if not line.strip():
            raise UserError(f"{place}: this line is empty: remove it")
        if len(columns) <= max(label, text):
            raise UserError(
                f"{place}: the number of columns, which are separated by tabs, is {len(columns)}, "
                f"too few for data.label={label} and data.text={text} (counted from 0): correct "
                "the line or these fields, or use data=lines if a space follows the label"
            )
        yield Text(columns[label].strip(), columns[text], place)


def _tfds(data: Config, split: str) -> Iterator[Text]:
    features = {"label": data.label, "text": data.text}
    for number, example in enumerate(read_catalog(data, split, features)):
        label, text = example[data.label], example[data.text]
        place = f"{data.name}, {split} example {number}"
        if not isinstance(text, bytes):
            raise UserError(
                f"{place}: the feature data.text={data.text} must be text, but it is of type "
                f"{type(text).__name__}: set config.data.text to another feature"
            )
        if not isinstance(label, bytes | int | np.integer):
            raise UserError(
                f"{place}: the feature data.label={data.label} must be an integer or text, but it "
                f"is of type {type(label).__name__}: set config.data.label to another feature"
            )
        name = label.decode("utf-8") if isinstance(label, bytes) else str(label)
        name = " ".join(name.split())  # vocabularies and predictions.txt have one label per line
        yield Text(name, text.decode("utf-8"), place)


CORPORA: dict[str, Callable[[Config, str], Iterator[Text]]] = {
    "lines": _lines,
    "tsv": _tsv,
    "tfds": _tfds,
}


class ClassificationCorpus(LabelledCorpus[Text]):
    """A corpus of texts with one label each."""

    readers = CORPORA
    unit = "texts"
    typed = "one text per line"
    count_messages = {"cut": "truncated to data.max_length or data.max_sentences"}

    @property
    def label(self) -> str:
        return f"texts-{self.data.corpus}"

    @property
    def fields(self) -> ArrayFields:
        axes = ("sentence", "word") if self.data.documents else ("word",)
        return {"words": ArrayField(axes), "label": ArrayField()}

    def holdout_key(self, example: Text) -> str:
        return normalized(example.text)

    def read(self, split: str) -> Iterator[Text]:
        return _with_labels(super().read(split))

    def read_files(self, paths: Sequence[Path]) -> Iterator[Text]:
        """Yield the texts of a file in the format of the corpus.

        If the corpus is a TFDS dataset, the file is a TSV file: label, tab, text.
        """
        data, path = self.data, only_file(paths)
        if data.corpus == "lines":
            return _with_labels(_texts_of_lines(path))
        columns = (0, 1) if data.corpus == "tfds" else (int(data.label), int(data.text))
        return _with_labels(_texts_of_columns(path, *columns))

    def learn_vocabularies(self) -> Iterator[tuple[str, Labels | Vocabulary]]:
        labels = (text.label for text in self.read_train("labels"))
        learn = functools.partial(Labels.learn, labels)
        yield "label", self.choose_vocabulary("label", learn, Labels.load)
        texts = self.read_train("vocabulary")
        parts = itertools.chain.from_iterable(sentences(text.text) for text in texts)
        settings, kind = self.data.vocab, VOCABULARIES[self.data.vocab.kind]
        learn = functools.partial(kind.learn, parts, settings, "en")
        load = functools.partial(kind.load, settings=settings, language="en")
        yield "words", self.choose_vocabulary("words", learn, load)

    def vocabulary_settings(self) -> dict[str, dict[str, Any]]:
        return {"label": LABEL_SETTINGS, "words": shared_settings(self.data.vocab)}

    def load_vocabularies(self, folder: Path) -> dict[str, Any]:
        settings = self.data.vocab
        words = VOCABULARIES[settings.kind].load(folder / "words.vocab", settings, "en")
        return {"words": words, "label": Labels.load(folder / "label.vocab")}

    def encode(
        self, example: Text, split: str, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded:
        encoded = self.encode_input(example, vocabularies, counts)
        if encoded is None:
            raise UserError(f"{example.place}: this text has no words: remove it")
        fields, text = encoded
        label = vocabularies["label"].encode(example.label, example.place)
        return {**fields, "label": label}, {**text, "label": example.label}

    def read_inputs(self, lines: Iterable[bytes]) -> Iterator[Input]:
        """Read one text per line."""
        for number, line in enumerate(decoded_lines(lines, strict=False), 1):
            yield line, f"{STREAM}, line {number}"

    def make_input(self, value: Any, place: str) -> Text:
        if not isinstance(value, str):
            raise UserError(
                f"{place}: a text must be a string, but this is of type {type(value).__name__}: "
                "give a list of strings"
            )
        return Text("", value, place)

    def encode_input(
        self, example: Text, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded | None:
        """Return the token ids and the tokens of a text; long texts are truncated."""
        found = self._tokens(example.text, vocabularies["words"])
        if not found:
            return None
        parts = [part[: self.data.max_length] for part in found[: self.data.max_sentences]]
        counts["cut"] += parts != found
        ids = [vocabularies["words"].ids(part) for part in parts]
        documents = self.data.documents
        fields = {"words": pad_rows(ids) if documents else ids[0], "label": 0}
        return fields, {"words": parts if documents else parts[0]}

    def _tokens(self, text: str, vocabulary: Vocabulary) -> list[list[str]]:
        """Return one list of tokens per sentence that has any.

        Without `data.documents`, all tokens of the text are in one list.
        """
        found = [tokens for part in sentences(text) if (tokens := vocabulary.tokens(part))]
        if found and not self.data.documents:
            found = [list(itertools.chain.from_iterable(found))]
        return found


def _with_labels(texts: Iterable[Text]) -> Iterator[Text]:
    """Yield the texts; raise an error for a text without a label."""
    for text in texts:
        if not text.label:
            raise UserError(
                f"{text.place}: this text has no label: add a label, or remove the text"
            )
        yield text
