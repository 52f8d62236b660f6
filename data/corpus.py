"""Corpus preparation for all tasks: read, learn vocabularies, encode and write the examples.

`Corpus.prepare` runs these steps. Each task has a subclass (in data/translation.py, labelling.py,
classification.py or cloze.py) that defines the steps in which tasks differ. A corpus is prepared
once, in a folder of `data.cache` whose name ends in a digest of the cache key: the settings and
files that determine the result.
"""

import abc
import contextlib
import functools
import hashlib
import json
import logging
import os
import shutil
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from ml_collections import ConfigDict
from tqdm import tqdm

import reading
from configs.base import Config
from data.catalog import catalog_files
from data.files import corpus_lock, find, fingerprint, split_files
from data.manifest import damage, write_manifest
from data.sampling import SubwordSampler
from data.store import FORMAT, ArrayFields, Prepared, Writer
from errors import UserError
from terminal import clean
from writing import sync_folder

logger = logging.getLogger("alignax")
T = TypeVar("T")
Encoded = tuple[Mapping[str, Any], Mapping[str, Any]]  # an example: arrays by field, and text

# These fields of `config.data` are not part of the cache key, because they do not change the
# prepared corpus: they set where files are, how batches are made, or how a model and its evaluation
# use the examples. The files that "links" names are part of the key, and so are the vocabularies
# of another run that "vocabularies" keeps or extends.
NOT_IN_CACHE_KEY = (
    "dir", "cache", "buckets", "batch_size", "batch_unit", "batch_multiple", "several_references",
    "reverse_source", "links", "vocabularies", "source_vocab.sampling", "target_vocab.sampling",
)  # fmt: skip


NO_INITIAL: Mapping[str, Path] = types.MappingProxyType({})  # no vocabularies of another run


class Corpus(abc.ABC, Generic[T]):
    """The corpus that `config.data` describes, with examples of type T."""

    # Maps data.corpus to a reader. A reader takes `data` and the name of a split in the corpus
    # (such as data.splits.train), and yields examples without holding them all in memory.
    readers: Mapping[str, Callable[[Config, str], Iterator[T]]]
    without_files: tuple[str, ...] = ()  # values of data.corpus that are generated, not read
    unit: str  # plural noun for the examples, such as "texts", in the log
    # The names of the counts of `encode`, and their text in the log.
    count_messages: Mapping[str, str] = {}

    def __init__(self, data: Config, initial: Mapping[str, Path] = NO_INITIAL):
        """`initial` maps names of vocabularies to files of another run.

        These vocabularies are not learned but kept, or extended if data.vocabularies is "extend".
        """
        self.data, self.initial = data, initial

    # The members below differ between tasks, so each task defines them.

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """The first part of the cache folder's name, before the digest."""

    @property
    @abc.abstractmethod
    def fields(self) -> ArrayFields:
        """The axes and dtypes of the arrays of an example."""

    @abc.abstractmethod
    def read_files(self, paths: Sequence[Path]) -> Iterator[T]:
        """Yield the examples of a test set that is given as files, not as a split of the corpus.

        The files have the format of the corpus. Tasks define formats for corpora without files.
        """

    @abc.abstractmethod
    def holdout_key(self, example: T) -> str:
        """Return the text whose hash decides whether a training example is held out."""

    @abc.abstractmethod
    def learn_vocabularies(self) -> Iterator[tuple[str, Any]]:
        """Learn each vocabulary from the training split, and yield its name and the vocabulary."""

    @abc.abstractmethod
    def vocabulary_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that a vocabulary of another run must share, by vocabulary name."""

    @abc.abstractmethod
    def load_vocabularies(self, folder: Path) -> dict[str, Any]:
        """Load the vocabularies that were saved as NAME.vocab in `folder`."""

    @abc.abstractmethod
    def encode(
        self, example: T, split: str, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded | None:
        """Return the fields and the text of an example, or None to drop the example.

        An implementation increments the entries of `counts`, which has the keys of `count_messages`
        and is logged. For example, it counts the dropped examples by reason.
        """

    @property
    def languages(self) -> Sequence[str]:
        """The language of each file of a split; "" if a split has only one file."""
        return ("",)

    def local_files(self) -> list[Path]:
        """Return the files of the corpus, whose content is part of the cache key."""
        if self.data.corpus == "tfds":
            return catalog_files(self.data)
        if self.data.corpus in self.without_files:
            return []
        return split_files(self.data, self.languages)

    def samplers(self, vocabularies: dict[str, Any]) -> dict[str, SubwordSampler]:
        """Return the subword samplers of training batches, by field."""
        return {}

    # The methods below are the same for all tasks.

    def read(self, split: str) -> Iterator[T]:
        """Yield the examples of a split ("train", "valid" or "test").

        If the corpus has no validation split (`data.splits.valid` is empty), one in `data.holdout`
        training examples is held out for validation. Examples with the same `holdout_key` are in
        the same split.
        """
        data, reader = self.data, self.readers[self.data.corpus]
        if data.splits.valid or split == "test":
            yield from reader(data, data.splits[split])
            return
        for example in reader(data, data.splits.train):
            held_out = zlib.crc32(self.holdout_key(example).encode()) % data.holdout == 0
            if held_out == (split == "valid"):
                yield example

    def read_train(self, purpose: str) -> Iterator[T]:
        """Yield the training examples, with a progress bar that shows `purpose`."""
        return _progress(self.read("train"), purpose)

    def choose_vocabulary(
        self, name: str, learn: Callable[[], Any], load: Callable[[Path], Any]
    ) -> Any:
        """Return a learned vocabulary, that of `initial`, or an extension of the latter."""
        if name not in self.initial:
            return learn()
        vocabulary = load(self.initial[name])
        return vocabulary.extended(learn()) if self.data.vocabularies == "extend" else vocabulary

    def prepare(self) -> Prepared:
        """Return the prepared corpus from the cache; if it is missing, prepare it first."""
        self._check_names()
        cache_key = self.cache_key()
        digest = hashlib.sha256(json.dumps(cache_key, sort_keys=True).encode()).hexdigest()[:16]
        folder = Path(self.data.cache) / f"{self.label}-{digest}"
        try:
            if not folder.is_dir() or damage(folder, cache_key):
                self._prepare(folder, cache_key)
        except OSError as error:
            raise UserError(
                f"the corpus cannot be prepared in {folder.parent} ({error.strerror or error}): "
                "free some space, or set data.cache to another folder"
            ) from error
        return self.open(folder)

    def _prepare(self, folder: Path, cache_key: dict[str, Any]) -> None:
        """Write a folder that is missing or damaged, unless another process does so."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        with corpus_lock(folder.with_name(folder.name + ".lock")):
            problem = damage(folder, cache_key)
            if problem and folder.exists():
                logger.warning("%s: the corpus is prepared again", problem)
            if problem:  # otherwise, another process wrote the folder
                with _renamed_when_complete(folder) as scratch:
                    self._write(scratch, cache_key)

    def open(self, folder: Path) -> Prepared:
        """Open a folder that contains the prepared corpus, or only its vocabularies."""
        self._check_names()
        return Prepared(folder, self.fields, self.load_vocabularies(folder))

    def cache_key(self) -> dict[str, Any]:
        """Return the settings and file digests that determine the prepared corpus."""
        settings = json.loads(ConfigDict(self.data).to_json())
        for path in NOT_IN_CACHE_KEY:
            *sections, name = path.split(".")
            section = functools.reduce(lambda node, key: node.get(key, {}), sections, settings)
            section.pop(name, None)
        key = {
            "format": FORMAT,
            "data": settings,
            "files": [fingerprint(path) for path in self.local_files()],
        }
        if self.initial:
            codes = {name: reading.digest(path) for name, path in self.initial.items()}
            key["initial"] = {"extend": self.data.vocabularies == "extend", "sha256": codes}
        return key

    def _check_names(self) -> None:
        """Raise UserError if a setting would name files outside the folder of the corpus."""
        for name in (self.label, *self.fields):
            if "/" in name or "\0" in name:
                raise UserError(
                    f"{name!r} cannot be part of a file name in data.cache: remove the / from "
                    "data.source, data.target or data.columns"
                )

    def _write(self, folder: Path, cache_key: dict[str, Any]) -> None:
        for name, vocabulary in self.learn_vocabularies():
            vocabulary.save(folder / f"{name}.vocab")
        vocabularies = self.load_vocabularies(folder)
        splits = ("train", "valid", "test") if self.data.splits.test else ("train", "valid")
        manifest = {
            "cache_key": cache_key,
            "counts": {split: self._write_split(folder, split, vocabularies) for split in splits},
            "vocabulary": {name: len(vocabulary) for name, vocabulary in vocabularies.items()},
        }
        write_manifest(folder, manifest)

    def _write_split(
        self, folder: Path, split: str, vocabularies: dict[str, Any]
    ) -> dict[str, int]:
        counts, summary = self._encode_all(folder, split, self.read(split), vocabularies)
        if not counts["kept"]:
            raise self._no_examples(split, summary)
        return counts

    def write_files(
        self, folder: Path, name: str, paths: Sequence[Path], vocabularies: dict[str, Any]
    ) -> None:
        """Encode a test set that is given as files as the split `name` in `folder`."""
        examples = self.read_files(paths)
        counts, summary = self._encode_all(folder, name, examples, vocabularies)
        if not counts["kept"]:
            raise UserError(
                f"{' and '.join(map(str, paths))}: no usable examples ({summary}): check that the "
                "test set is not empty, and that it has the format of the run's corpus"
            )

    def _encode_all(
        self, folder: Path, split: str, examples: Iterable[T], vocabularies: dict[str, Any]
    ) -> tuple[dict[str, int], str]:
        """Write the examples of a split; return their counts, and the counts as text."""
        counts = dict.fromkeys(("read", "kept", *self.count_messages), 0)
        with Writer(folder, split, self.fields) as writer:
            for example in _progress(examples, split):
                counts["read"] += 1
                encoded = self.encode(example, split, vocabularies, counts)
                if encoded is not None:
                    counts["kept"] += 1
                    writer.add(*encoded)
        parts = [f"{counts['kept']:,} of {counts['read']:,} {self.unit} kept"]
        parts += [
            f"{counts[name]:,} {text}" for name, text in self.count_messages.items() if counts[name]
        ]
        summary = ", ".join(parts)
        if counts["kept"]:
            logger.info("%s: %s", split, summary)
        return counts, summary

    def _no_examples(self, split: str, summary: str) -> UserError:
        if split != "test" and not self.data.splits.valid:
            advice = (
                f"data.splits.valid is empty, so one in data.holdout={self.data.holdout} training "
                "examples is held out; change data.holdout, or set data.splits.valid"
            )
        else:
            setting = f"data.splits.{split}={self.data.splits[split]!r}"
            advice = f"check {' and '.join([*self._files_of(split), setting])}"
            effect = {"valid": "hold out training examples", "test": "train without a test split"}
            if split in effect:
                advice += f", or {effect[split]}: train.py --config.data.splits.{split}="
        return UserError(f"the split {split!r} has no usable examples ({summary}): {advice}")

    def _files_of(self, split: str) -> list[str]:
        """Return the files of a split; [] for corpora that are not read from files."""
        if self.data.corpus in ("tfds", *self.without_files):
            return []
        name = self.data.splits[split]
        return [str(find(self.data, name, language)) for language in self.languages]


def _progress(examples: Iterable[T], label: str) -> Iterator[T]:
    yield from tqdm(
        examples, desc=f"preparing {clean(label)}", unit=" examples", mininterval=1.0, leave=False,
        disable=None,
    )  # fmt: skip


@contextlib.contextmanager
def _renamed_when_complete(folder: Path) -> Iterator[Path]:
    """Provide an empty folder that replaces `folder` on success and is deleted on failure.

    The caller holds a lock, so files that are already in the new folder were left by a killed
    process; these files are deleted. A process that still reads a replaced folder keeps its files.
    """
    scratch, replaced = (folder.with_name(folder.name + end) for end in (".unfinished", ".damaged"))
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(replaced, ignore_errors=True)
    scratch.mkdir()
    try:
        yield scratch
        if folder.exists():
            os.replace(folder, replaced)
        os.replace(scratch, folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
