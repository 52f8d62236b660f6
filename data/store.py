"""Prepared corpora on disk: the examples of any task as arrays, in a cache.

An example is a few arrays, its fields. Those of an axis with a name (the words of a sentence, the
sentences of a document) differ in length from example to example; in batches they are padded with
zeros. A corpus is prepared once, into a folder whose name is a digest of all that shaped it. The
folder is made beside it and renamed when complete, under a lock, so that a reader never meets half
a corpus and two processes that start together do the work once.

    train.array_record   a record an example: the numbers of its fields, one after the other
    train.lengths.npy    the length of every example along every named axis
    valid.jsonl          examples as a person reads them (not for train)
    source.vocab         vocabularies
    manifest.json        what shaped it, and what was kept, skipped and dropped
"""

import array
import contextlib
import fcntl
import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from ml_collections import ConfigDict
from numpy.typing import DTypeLike
from tqdm import tqdm

from configs.base import Config
from errors import UserError

logger = logging.getLogger("alignax")
FORMAT = 3  # of the files above; a higher number makes every cache anew


class Field(NamedTuple):
    """One array of an example, without the axis of the batch."""

    axes: tuple[str | int, ...] = ()  # by name where the length differs by example
    dtype: DTypeLike = np.int32


Fields = Mapping[str, Field]
Example = dict[str, np.ndarray]


def axes(fields: Fields) -> list[str]:
    """The named axes, in the order in which lengths are kept."""
    names = [axis for field in fields.values() for axis in field.axes if isinstance(axis, str)]
    return list(dict.fromkeys(names))


def _sides(fields: Fields) -> dict[str, list[tuple[int, int]]]:
    """For every axis of every field, where its length is found, or the length if it is fixed."""
    place = {axis: i for i, axis in enumerate(axes(fields))}
    return {
        name: [(place[a], 0) if isinstance(a, str) else (-1, a) for a in field.axes]
        for name, field in fields.items()
    }


def shapes(fields: Fields, lengths: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """The shapes of all fields, where the named axes have these lengths."""
    return {
        name: tuple(fixed or lengths[axis] for axis, fixed in sides)
        for name, sides in _sides(fields).items()
    }


class Split:
    """The examples of one split: lengths in memory, the rest read from disk when asked for."""

    def __init__(self, folder: Path, name: str, fields: Fields):
        self.fields = fields
        dtypes = {name: np.dtype(field.dtype) for name, field in fields.items()}
        self._layout = [
            (name, dtypes[name], dtypes[name].itemsize, sides)
            for name, sides in _sides(fields).items()
        ]
        self.lengths = np.load(folder / f"{name}.lengths.npy")
        self._texts = folder / f"{name}.jsonl"
        # Random access only, so reading ahead would be for nothing.
        self._reader = ArrayRecordReader(
            str(folder / f"{name}.array_record"), "readahead_buffer_size:0,max_parallelism:0"
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def examples(self, indices: np.ndarray) -> Iterator[Example]:
        """The examples at `indices`."""
        # One by one: read(list) takes time and memory by the size of the whole file. This loop is
        # what training waits for, so it does no more than it must.
        for i in indices.tolist():
            record, offset, example = self._reader.read(i, i + 1)[0], 0, {}
            lengths = self.lengths[i].tolist()
            for name, dtype, size, sides in self._layout:
                shape = [fixed or lengths[axis] for axis, fixed in sides]
                count = math.prod(shape)
                values = np.frombuffer(record, dtype, count, offset)
                example[name] = values if len(shape) == 1 else values.reshape(shape)
                offset += count * size
            yield example

    def texts(self) -> list[dict[str, Any]]:
        with self._texts.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


class Writer:
    """Writes one split."""

    def __init__(self, folder: Path, split: str, fields: Fields):
        self.fields, self.lengths, self._axes = fields, array.array("i"), axes(fields)
        self._path = folder / f"{split}.lengths.npy"
        path = str(folder / f"{split}.array_record")
        self._writer = ArrayRecordWriter(path, "group_size:1,uncompressed")
        self._texts = None
        if split != "train":
            self._texts = (folder / f"{split}.jsonl").open("w", encoding="utf-8")

    def add(self, example: Mapping[str, Any], text: Mapping[str, Any]) -> None:
        """The fields of an example, and what a person should see of it."""
        by_name, record = {}, []
        for name, field in self.fields.items():
            values = np.asarray(example[name], field.dtype)
            for axis, length in zip(field.axes, values.shape, strict=True):
                if by_name.setdefault(axis, axis if isinstance(axis, int) else length) != length:
                    raise ValueError(f"{name} has {length} of {axis}, not {by_name[axis]}")
            record.append(values.tobytes())
        self.lengths.extend([by_name[axis] for axis in self._axes])
        self._writer.write(b"".join(record))
        if self._texts:
            self._texts.write(json.dumps(text, ensure_ascii=False) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._writer.close()
        if self._texts:
            self._texts.close()
        lengths = np.array(self.lengths, np.int32).reshape(-1, len(self._axes))
        np.save(self._path, lengths)


class Prepared(NamedTuple):
    folder: Path
    fields: Fields
    vocabularies: dict[str, Any]

    def copy_vocabularies(self, folder: Path) -> None:
        """For a model that should not need the corpus it was trained on."""
        folder.mkdir(exist_ok=True)
        for path in self.folder.glob("*.vocab"):
            shutil.copy(path, folder)

    def split(self, name: str) -> Split:
        if not (self.folder / f"{name}.array_record").exists():
            raise UserError(f"this corpus has no split {name!r}: name one in data.splits.{name}")
        return Split(self.folder, name, self.fields)


def cached(
    data: Config,
    shaping: Iterable[str],
    files: Iterable[Path],
    label: str,
    make: Callable[[Path], dict[str, Any]],
) -> Path:
    """The folder with what `make` wrote, made now if the cache lacks it.

    It is for these values of the fields `shaping` of `data` and for the content of `files`. `make`
    returns what the manifest should say.
    """
    shape = json.loads(ConfigDict({name: data[name] for name in shaping}).to_json())
    shape["format"] = FORMAT
    key = json.dumps([shape, [_fingerprint(path) for path in files]], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = Path(data.cache) / f"{label}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(folder.name + ".lock")):
            if not folder.is_dir():
                _complete(folder, shape, make)
    return folder


def rectangle(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Rows of different lengths as one array, zeros behind the shorter ones."""
    table = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = row
    return table


def progress(examples: Iterable[Any], label: str) -> Iterator[Any]:
    yield from tqdm(
        examples, desc=f"preparing {label}", unit=" examples", mininterval=1.0, leave=False,
        disable=None,
    )  # fmt: skip


def _fingerprint(path: Path) -> list[str]:
    """A file by its name and content: dates and folders change when a corpus is copied."""
    with path.open("rb") as file:
        return [path.name, hashlib.file_digest(file, "sha256").hexdigest()]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process prepares this corpus: waiting for it (%s)", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


def _complete(folder: Path, shape: dict, make: Callable[[Path], dict[str, Any]]) -> None:
    scratch = folder.with_name(folder.name + ".unfinished")  # one at a time: we hold the lock
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        manifest = {"shape": shape, **make(scratch)}
        (scratch / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        os.replace(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
