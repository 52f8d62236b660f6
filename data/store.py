"""Prepared corpora on disk: the examples of any task as arrays, in a cache.

An example is a few arrays, its fields. Those of an axis with a name (the words of a sentence, the
sentences of a document) differ in length from example to example; in batches they are padded with
zeros. A corpus is prepared once, into a folder whose name is a digest of all that shaped it. The
folder is made beside it and renamed when complete, under a lock, so that a reader never meets half
a corpus and two processes that start together do the work once.

    train.source.bin    the numbers of a field, example after example
    train.lengths.npy   the length of every example along every named axis
    valid.jsonl         examples as a person reads them (not for train)
    source.vocab        vocabularies
    manifest.json       what shaped it, and what was kept, skipped and dropped

Numbers are mapped into memory, not read: the system keeps of them what it has room for, and a batch
is one gathering from that map.
"""

import array
import contextlib
import fcntl
import hashlib
import json
import logging
import math
import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from ml_collections import ConfigDict
from numpy.typing import DTypeLike
from tqdm import tqdm

from configs.base import Config
from errors import UserError

logger = logging.getLogger("alignax")
FORMAT = 4  # of the files above; a higher number makes every cache anew


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
    """The examples of one split: lengths in memory, the rest mapped from disk."""

    def __init__(self, folder: Path, name: str, fields: Fields):
        self.fields, self._sides = fields, _sides(fields)
        self.lengths = _load(folder / f"{name}.lengths.npy")
        self._texts = folder / f"{name}.jsonl"
        self._starts: dict[str, np.ndarray] = {}  # of every example in its field's numbers
        self._numbers: dict[str, np.ndarray] = {}
        self._maps: dict[Path, mmap.mmap] = {}
        for field, shape in shapes(fields, list(self.lengths.T)).items():
            sizes = np.broadcast_to(math.prod(shape), len(self))
            self._starts[field] = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
            path = folder / f"{name}.{field}.bin"
            self._numbers[field] = self._map(
                path, fields[field].dtype, int(self._starts[field][-1])
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def examples(self, indices: np.ndarray) -> Iterator[Example]:
        """The examples at `indices`, each by itself."""
        self._check()
        for i in indices.tolist():
            own = shapes(self.fields, self.lengths[i].tolist())
            yield {
                name: self._numbers[name][starts[i] : starts[i + 1]].reshape(own[name])
                for name, starts in self._starts.items()
            }

    def rectangles(self, indices: np.ndarray, lengths: Sequence[int]) -> Example:
        """The examples at `indices` as one array a field, with zeros up to `lengths`."""
        self._check()
        together = {}
        for name, shape in shapes(self.fields, lengths).items():
            place, inside = self._places(name, indices, shape)
            numbers = self._numbers[name]
            together[name] = np.where(
                inside, numbers.take(place, mode="clip"), numbers.dtype.type()
            )
        return together

    def _check(self) -> None:
        """To read past the end of a file that was cut short while mapped would be a bus error."""
        for path, mapped in self._maps.items():
            if mapped.size() < len(mapped):
                raise _damaged(path)

    def _places(
        self, name: str, indices: np.ndarray, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, Any]:
        """Where the numbers of a field of this shape are found, and which of them there are."""
        own, column = self.lengths[indices], (-1, *[1] * len(shape))
        place, inside, stride = self._starts[name][indices].reshape(column), np.True_, 1
        for axis in reversed(range(len(shape))):
            where, fixed = self._sides[name][axis]
            length: Any = fixed or own[:, where].reshape(column)
            along = np.arange(shape[axis]).reshape(-1, *[1] * (len(shape) - 1 - axis))
            place, inside = place + along * stride, inside & (along < length)
            stride = stride * length
        return place, inside

    def texts(self) -> list[dict[str, Any]]:
        try:
            with self._texts.open(encoding="utf-8") as lines:
                return [json.loads(line) for line in lines]
        except (FileNotFoundError, ValueError):
            raise _damaged(self._texts) from None

    def _map(self, path: Path, dtype: DTypeLike, count: int) -> np.ndarray:
        size = path.stat().st_size if path.exists() else -1
        if size != count * np.dtype(dtype).itemsize:
            raise _damaged(path)
        if not size:
            return np.zeros(1, dtype)  # an empty file cannot be mapped; nobody reads this number
        with path.open("rb") as file:
            mapped = self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.madvise(mmap.MADV_RANDOM)  # reading ahead would be for nothing
        return np.frombuffer(mapped, dtype)


def _load(path: Path) -> np.ndarray:
    try:
        return np.load(path)  # which runs no code: pickled objects are refused
    except (ValueError, EOFError):
        raise _damaged(path) from None


def _damaged(path: Path) -> UserError:
    return UserError(
        f"{path} is missing or damaged: delete the folder {path.parent}, and the corpus will be "
        "prepared again"
    )


class Writer:
    """Writes one split."""

    def __init__(self, folder: Path, split: str, fields: Fields):
        self.fields, self.lengths, self._axes = fields, array.array("i"), axes(fields)
        self._path = folder / f"{split}.lengths.npy"
        self._files = {name: (folder / f"{split}.{name}.bin").open("wb") for name in fields}
        self._texts = None
        if split != "train":
            self._texts = (folder / f"{split}.jsonl").open("w", encoding="utf-8")

    def add(self, example: Mapping[str, Any], text: Mapping[str, Any]) -> None:
        """The fields of an example, and what a person should see of it."""
        by_name = {}
        for name, field in self.fields.items():
            values = np.asarray(example[name], field.dtype)
            for axis, length in zip(field.axes, values.shape, strict=True):
                if by_name.setdefault(axis, axis if isinstance(axis, int) else length) != length:
                    raise ValueError(f"{name} has {length} of {axis}, not {by_name[axis]}")
            self._files[name].write(values.tobytes())
        self.lengths.extend([by_name[axis] for axis in self._axes])
        if self._texts:
            self._texts.write(json.dumps(text, ensure_ascii=False) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        for file in self._files.values():
            file.close()
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
        if not (self.folder / f"{name}.lengths.npy").exists():
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
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder.with_name(folder.name + ".lock")):
                if not folder.is_dir():
                    _complete(folder, shape, make)
        except OSError as error:
            raise UserError(
                f"the corpus cannot be prepared in {folder.parent} ({error.strerror or error}): "
                "make room, or choose another data.cache"
            ) from error
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
