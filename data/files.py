"""The files of a corpus: find them by a name pattern, and read plain or compressed lines."""

import contextlib
import fcntl
import gzip
import itertools
import logging
import lzma
import string
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from configs.base import Config
from errors import UserError
from reading import digest, reading, skip_mark

logger = logging.getLogger("alignax")
_READABLE = "check that it is a readable file, or use another copy of it"
_OPENERS: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}


class NoCorpusFolder(UserError):
    """The folder of the corpus is missing; `flag` sets it."""

    def __init__(self, problem: str, flag: str = "--config.data.dir"):
        super().__init__(
            f"{problem}: give the folder of your copy with {flag}=FOLDER; docs/data.md says where "
            "to find public corpora"
        )
        self.problem = problem


@contextlib.contextmanager
def corpus_folder_flag(flag: str) -> Iterator[None]:
    """Name `flag` in the message about a missing folder, in programs without --config."""
    try:
        yield
    except NoCorpusFolder as error:
        raise NoCorpusFolder(error.problem, flag) from None


def find(
    data: Config, split: str, language: str = "", pattern: str = "", field: str = "data.files"
) -> Path:
    """Return the path of a split's file in `data.dir`, which may be compressed.

    `split` is the name of the split in the corpus, such as data.splits.train. The file name follows
    `pattern`, the value of `field` (default: data.files), with {split} and {lang} replaced.
    """
    folder = Path(data.dir)
    if not data.dir:
        raise NoCorpusFolder("data.dir is empty, but this corpus is read from files")
    with reading(folder, _READABLE):  # is_dir and is_file raise OSErrors, such as for long names
        if not folder.is_dir():
            problem = "is a file, not a folder" if folder.exists() else "does not exist"
            raise NoCorpusFolder(f"the corpus folder {folder} {problem}")
        name = _fill(pattern or data.files, split, language)
        for suffix in _OPENERS:
            if (folder / (name + suffix)).is_file():
                return folder / (name + suffix)
        raise _not_found(data, split, language, name, field)


def _fill(pattern: str, split: str, language: str) -> str:
    """Replace {split} and {lang} in a pattern; raise UserError if the name leaves its folder.

    The values of `split` and `language` are inserted as they are. Unlike `str.format`, this
    function accepts no attributes, conversions or widths in placeholders.
    """
    values = {"split": split, "lang": language}
    try:
        name = ""
        for text, field, spec, conversion in string.Formatter().parse(pattern):
            if spec or conversion:
                raise ValueError("a placeholder has a format or a conversion")
            name += text + (values[field] if field is not None else "")
    except (KeyError, ValueError):
        raise UserError(
            f"the file name pattern {pattern!r} in config.data is invalid: its only placeholders "
            "are {split} and {lang}"
        ) from None
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise UserError(
            f"the file name {name!r} in config.data is invalid: it must be a path inside data.dir, "
            "without a leading / and without .., so correct data.files, data.splits, data.source "
            "and data.target, data.alignment or data.links"
        )
    return name


def _not_found(data: Config, split: str, language: str, name: str, field: str) -> UserError:
    present = sorted(path.name for path in Path(data.dir).iterdir() if path.is_file())
    made_from = f"{field} and data.splits" + (", data.source, data.target" if language else "")
    other = ""
    if split == data.splits.valid != data.splits.train:
        other = "; --config.data.splits.valid= (empty) would hold out training examples"
    elif split == data.splits.test != data.splits.train:
        other = "; without a test split, set --config.data.splits.test= (empty)"
    return UserError(
        f"{data.dir} has no file {name} (plain, .gz or .xz): correct data.dir, or the fields that "
        f"make the name ({made_from}); the folder contains {', '.join(present[:12]) or 'no files'}"
        + (", ..." if len(present) > 12 else "")
        + other
    )


def split_files(data: Config, languages: Sequence[str]) -> list[Path]:
    """Return the files of all splits and languages, without duplicates."""
    splits = [name for name in data.splits.values() if name]
    files = [find(data, split, language) for split in splits for language in languages]
    return list(dict.fromkeys(files))


@contextlib.contextmanager
def corpus_lock(path: Path) -> Iterator[None]:
    """Hold a file lock, so that only one of several processes prepares a corpus."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another process that is preparing this corpus (%s)", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the lock file at the end of `with` releases the lock


def fingerprint(path: Path) -> list[str]:
    """Return the name of a file and a digest of its content."""
    return [path.name, digest(path, _READABLE)]


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without line breaks and without a byte order mark."""
    number = 1
    with reading(path, _READABLE):
        try:
            with _OPENERS.get(path.suffix, open)(path, "rb") as file:
                for line in skip_mark(file):
                    yield line.decode("utf-8").rstrip("\r\n")
                    number += 1
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}, line {number}: not valid UTF-8 (byte {error.start + 1} of the line): "
                "convert the file to UTF-8, for example with iconv"
            ) from None
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            raise UserError(
                f"{path} is corrupt at line {number} ({error}): download it again"
            ) from None


def only_file(paths: Sequence[Path]) -> Path:
    """Return the only file of a test set; raise UserError if there are several."""
    if len(paths) > 1:
        raise UserError(
            f"{', '.join(map(str, paths))} are {len(paths)} files, but a test set of this task is "
            "one labelled file: repeat --test=NAME=FILE for each of them"
        )
    return paths[0]


def blocks(every: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the blocks of lines between blank lines, with the number of their first line."""
    block: list[str] = []
    for number, line in enumerate(itertools.chain(every, [""]), 1):
        if line.strip():
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []
