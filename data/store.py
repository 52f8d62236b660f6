"""The files of a prepared corpus: the examples of any task as arrays on disk.

An example is a dictionary of arrays, called fields. An axis of a field is either a fixed length or
a name ("source", "sentence"). The length along a named axis varies between examples; batches are
zero-padded along it. The folder of a prepared corpus contains:

    train.source.bin    the values of one field, example after example
    train.lengths.npy   the length of every example along every named axis
    valid.jsonl         the text of every example, one JSON object per line (not for train)
    source.vocab        a vocabulary
    manifest.json       the cache key, the number of examples per split, and a digest of every file
    verified.json       the files whose digests have been compared (see data/manifest.py)

The values are memory-mapped instead of loaded, so a corpus may be larger than the memory. A batch
is gathered from the mapped values by one indexing operation per field.
"""

import array
import json
import math
import mmap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from errors import UserError

FORMAT = 7  # version of the file format; a new version makes all runs prepare their corpus again


class ArrayField(NamedTuple):
    """The axes and the dtype of one array of an example; there is no batch axis."""

    axes: tuple[str | int, ...] = ()  # per axis: a fixed length, or a name if the length varies
    dtype: DTypeLike = np.int32
    is_token: bool = True  # whether the elements count as tokens in the size of a batch


ArrayFields = Mapping[str, ArrayField]
Example = dict[str, np.ndarray]


def axes(fields: ArrayFields) -> list[str]:
    """Return the names of all named axes, in the order of the columns of `Split.lengths`."""
    names = [axis for field in fields.values() for axis in field.axes if isinstance(axis, str)]
    return list(dict.fromkeys(names))


def shapes(fields: ArrayFields, lengths: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """Return the shape of every field, given the lengths of the named axes.

    A length may also be an array with one entry per example; the shapes then contain such arrays.
    """
    length_of = dict(zip(axes(fields), lengths, strict=True))
    return {
        name: tuple(length_of[axis] if isinstance(axis, str) else axis for axis in field.axes)
        for name, field in fields.items()
    }


def axis_lengths(fields: ArrayFields, example: Mapping[str, Any]) -> list[int]:
    """Return the length of an example along every named axis, in the order of `axes`."""
    lengths: dict[str, int] = {}
    for name, field in fields.items():
        for axis, length in zip(field.axes, np.shape(example[name]), strict=True):
            if isinstance(axis, str):
                lengths[axis] = length
    return [lengths[axis] for axis in axes(fields)]


def pad_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Stack rows of different lengths into one zero-padded array."""
    table = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for padded, row in zip(table, rows, strict=True):
        padded[: len(row)] = row
    return table


class Prepared(NamedTuple):
    """A prepared corpus: its folder, the fields of its examples and its vocabularies."""

    folder: Path
    fields: ArrayFields
    vocabularies: dict[str, Any]

    def split(self, name: str) -> "Split":
        """Open the split "train", "valid" or "test"."""
        if not (self.folder / f"{name}.lengths.npy").exists():
            raise UserError(
                f"this corpus has no split {name!r}: choose another split (eval.py --split=valid) "
                "or a test set (eval.py --test)"
            )
        return Split(self.folder, name, self.fields)


class Split:
    """The examples of one split; lengths are in memory, all other values are memory-mapped."""

    def __init__(self, folder: Path, name: str, fields: ArrayFields):
        self.fields = fields
        self.lengths = _load(folder / f"{name}.lengths.npy")
        self._texts = folder / f"{name}.jsonl"
        self._starts: dict[str, np.ndarray] = {}  # per field: offset of each example's values
        self._values: dict[str, np.ndarray] = {}
        self._maps: dict[Path, mmap.mmap] = {}
        for field, shape in shapes(fields, list(self.lengths.T)).items():
            sizes = np.broadcast_to(math.prod(shape), len(self))
            self._starts[field] = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
            path = folder / f"{name}.{field}.bin"
            self._values[field] = self._map(path, fields[field].dtype, int(self._starts[field][-1]))

    def __len__(self) -> int:
        return len(self.lengths)

    def examples(self, indices: np.ndarray) -> Iterator[Example]:
        """Yield the examples at `indices` one by one, without padding."""
        self._check_maps()
        for i in indices.tolist():
            shape_of = shapes(self.fields, self.lengths[i].tolist())
            yield {
                name: self._values[name][starts[i] : starts[i + 1]].reshape(shape_of[name])
                for name, starts in self._starts.items()
            }

    def padded(self, indices: np.ndarray, lengths: Sequence[int]) -> Example:
        """Return the examples at `indices` as one array per field, zero-padded to `lengths`."""
        self._check_maps()
        padded_shapes = shapes(self.fields, lengths)
        example_shapes = shapes(self.fields, list(self.lengths[indices].T))
        batch = {}
        for name, values in self._values.items():
            starts = self._starts[name][indices]
            positions, inside = _positions(starts, example_shapes[name], padded_shapes[name])
            batch[name] = np.where(inside, values.take(positions, mode="clip"), values.dtype.type())
        return batch

    def texts(self, indices: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """Return the texts of examples (default: of all), as they were passed to `Writer.add`."""
        chosen = range(len(self)) if indices is None else indices
        try:
            lines = self._texts.read_bytes().splitlines()
            if len(lines) != len(self):
                raise _corrupt(self._texts)
            return [json.loads(lines[i]) for i in chosen]
        except (FileNotFoundError, ValueError):
            raise _corrupt(self._texts) from None

    def _map(self, path: Path, dtype: DTypeLike, count: int) -> np.ndarray:
        size = path.stat().st_size if path.exists() else -1
        if size != count * np.dtype(dtype).itemsize:
            raise _corrupt(path)
        if not size:
            return np.zeros(1, dtype)  # an empty file cannot be mapped; this zero is never used
        with path.open("rb") as file:
            mapped = self._maps[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.madvise(mmap.MADV_RANDOM)  # shuffled examples gain nothing from read-ahead
        return np.frombuffer(mapped, dtype)

    def _check_maps(self) -> None:
        """Raise an error if a mapped file was truncated: reading it would cause a bus error."""
        for path, mapped in self._maps.items():
            if mapped.size() < len(mapped):
                raise _corrupt(path)


def _positions(
    starts: np.ndarray, example_shape: Sequence[Any], padded_shape: Sequence[int]
) -> tuple[np.ndarray, Any]:
    """Return the index of each element of a padded array in the stored values, and a mask.

    The mask is False for padding. Both arrays can be broadcast to the shape [examples,
    *padded_shape]. The entries of `example_shape` are fixed lengths or arrays with one length per
    example.
    """
    per_example = (-1, *[1] * len(padded_shape))
    positions, inside, stride = starts.reshape(per_example), np.True_, 1
    for axis in reversed(range(len(padded_shape))):
        length = example_shape[axis]
        if isinstance(length, np.ndarray):
            length = length.reshape(per_example)
        along = np.arange(padded_shape[axis])
        along = along.reshape(-1, *[1] * (len(padded_shape) - 1 - axis))
        positions, inside = positions + along * stride, inside & (along < length)
        stride = stride * length
    return positions, inside


def _load(path: Path) -> np.ndarray:
    try:
        return np.load(path)  # np.load rejects pickled objects, which could execute code
    except (ValueError, EOFError):
        raise _corrupt(path) from None


def _corrupt(path: Path) -> UserError:
    return UserError(
        f"{path} is missing or corrupt: delete the folder {path.parent}, and the corpus will be "
        "prepared again"
    )


class Writer:
    """A context manager that writes the files of one split, example by example."""

    def __init__(self, folder: Path, split: str, fields: ArrayFields):
        self.fields, self.lengths, self._axes = fields, array.array("i"), axes(fields)
        self._path = folder / f"{split}.lengths.npy"
        self._files = {name: (folder / f"{split}.{name}.bin").open("wb") for name in fields}
        self._texts = None
        if split != "train":
            self._texts = (folder / f"{split}.jsonl").open("w", encoding="utf-8")

    def add(self, example: Mapping[str, Any], text: Mapping[str, Any]) -> None:
        """Write the fields of one example, and its text (values that JSON can represent)."""
        lengths: dict[str | int, int] = {}
        for name, field in self.fields.items():
            values = np.asarray(example[name], field.dtype)
            for axis, length in zip(field.axes, values.shape, strict=True):
                expected = lengths.setdefault(axis, axis if isinstance(axis, int) else length)
                if length != expected:
                    raise ValueError(
                        f"field {name!r} has length {length} along axis {axis!r}, not {expected}"
                    )
            self._files[name].write(values.tobytes())
        self.lengths.extend([lengths[axis] for axis in self._axes])
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
