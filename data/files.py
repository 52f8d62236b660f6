"""The files of a corpus: found by their pattern, plain or packed, read line by line."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from configs.base import Config
from errors import UserError

T = TypeVar("T")


def split_names(data: Config) -> list[str]:
    """The splits that a corpus has; only that of testing may be absent."""
    return ["train", "valid", "test"] if data.splits.test else ["train", "valid"]


def refuse_nothing(kept: int, data: Config, split: str) -> None:
    if not kept:
        held_out = split != "test" and not data.splits.valid
        why = f" (data.splits.valid is empty and data.holdout={data.holdout})" if held_out else ""
        raise UserError(f"there is nothing in the split {split!r} of this corpus{why}")


def read_split(
    data: Config,
    split: str,
    read: Callable[[Config, str], Iterator[T]],
    key: Callable[[T], str],
) -> Iterator[T]:
    """The examples of a split ("train", "valid" or "test"), whatever the corpus calls it.

    A corpus without a validation split (`data.splits.valid = ""`) gives one in `data.holdout`
    of its training examples for it; those of the same `key` stay together.
    """
    if data.splits.valid or split == "test":
        yield from read(data, data.splits[split])
    else:
        for example in read(data, data.splits.train):
            held_out = zlib.crc32(key(example).encode()) % data.holdout == 0
            if held_out == (split == "valid"):
                yield example


_OPENERS: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def find(data: Config, split: str, language: str = "", pattern: str = "") -> Path:
    """The file of a split's own name, in `data.dir`, by `data.files` or another pattern."""
    folder = Path(data.dir)
    if not data.dir:
        raise UserError("this corpus is in files: name their folder with --config.data.dir=FOLDER")
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "does not exist"
        raise UserError(
            f"corpus folder {folder} {what}: name your copy with --config.data.dir=FOLDER, or to "
            "eval.py and reproduce.py with --data_dir=FOLDER"
        )
    pattern = pattern or data.files
    try:
        name = pattern.format(split=split, lang=language)
    except (KeyError, IndexError, ValueError):
        raise UserError(
            f"config.data's {pattern!r} cannot name files: it may use {{split}} and {{lang}}"
        ) from None
    for suffix in _OPENERS:
        if (folder / (name + suffix)).is_file():
            return folder / (name + suffix)
    present = sorted(path.name for path in folder.iterdir() if path.is_file())
    made_of = "data.files and data.splits" + (", data.source, data.target" if language else "")
    without = split == data.splits.valid and split != data.splits.train
    raise UserError(
        f"{folder} has no file {name} (plain, .gz or .xz): {made_of} make that name, data.dir is "
        f"the folder; the folder holds {', '.join(present[:12]) or 'no files'}"
        + (", ..." if len(present) > 12 else "")
        + ("; --config.data.splits.valid= holds out training examples instead" if without else "")
    )


def split_files(data: Config) -> list[Path]:
    """The files of all splits, for the cache to know when they change."""
    return list(dict.fromkeys(find(data, name) for name in data.splits.values() if name))


def lines(path: Path) -> Iterator[str]:
    number = 1
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            for line in file:
                yield line.decode("utf-8").rstrip("\r\n")
                number += 1
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not valid UTF-8 (byte {error.start + 1}); "
            "convert the file, for example with iconv"
        ) from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{path} is damaged at line {number} ({error}): fetch it anew") from None
