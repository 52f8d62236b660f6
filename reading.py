"""Read files that may be missing, unreadable or damaged; each problem is one UserError.

Everything in a workdir or in a corpus cache is read as data: text is UTF-8 with or without a byte
order mark, and the types of JSON values are checked before they are used.
"""

import codecs
import contextlib
import hashlib
import io
import json
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from errors import UserError, first_line

RESTORE = "restore it from a backup, or use another --workdir"
_NAMES = {dict: "an object", list: "a list", str: "a string", int: "an integer",
          float: "a number", bool: "true or false", type(None): "null"}  # fmt: skip


class DamagedFile(UserError):
    """A file is missing, or its content is not what this program wrote.

    The message consists of the problem and the remedy.
    """

    def __init__(self, problem: str, remedy: str = RESTORE):
        super().__init__(f"{problem}: {remedy}")
        self.problem = problem  # the message without the remedy


@contextlib.contextmanager
def reading(path: Path, remedy: str = RESTORE) -> Iterator[None]:
    """Convert errors of reading or parsing `path` to a UserError that ends in `remedy`.

    A missing or damaged file raises DamagedFile, so that callers can replace it.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedFile(f"{error.filename or path} does not exist", remedy) from error
    except OSError as error:
        raise UserError(
            f"cannot read {error.filename or path} ({error.strerror or error}): {remedy}"
        ) from error
    except UnicodeDecodeError as error:
        raise DamagedFile(
            f"{path} is corrupt (byte {error.start + 1} is not UTF-8)", remedy
        ) from error
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{path} is corrupt ({first_line(error)})", remedy) from error


def read_bytes(path: Path, remedy: str = RESTORE) -> bytes:
    """Return the content of a regular file."""
    with reading(path, remedy), _open(path) as file:
        return file.read()


def _open(path: Path) -> io.BufferedReader:
    kind = path.stat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # opening a pipe could wait forever
        raise ValueError("it is not a regular file")
    return path.open("rb")  # raises the OSError of a folder


def read_text(path: Path, remedy: str = RESTORE) -> str:
    """Return the text of a UTF-8 file, without a byte order mark; line breaks stay as they are."""
    content = read_bytes(path, remedy)
    with reading(path, remedy):
        return content.decode("utf-8-sig")


def read_lines(path: Path, remedy: str = RESTORE) -> list[str]:
    """Return the lines of a file in which every line ends in a line feed.

    Unlike str.splitlines, this function does not split lines at other characters, such as U+2028.
    """
    *lines, rest = read_text(path, remedy).split("\n")
    with reading(path, remedy):
        if rest:
            raise ValueError("its last line is incomplete")
    return lines


def read_json(path: Path, kind: Any = object, remedy: str = RESTORE) -> Any:
    """Return the value of a JSON file after checking that its types match `kind`; see `matching`.

    For example, `{"step": int, "done": bool}` stands for an object with at least these two entries.
    """
    text = read_text(path, remedy)
    with reading(path, remedy):
        return matching(json.loads(text), kind)


def matching(value: Any, kind: Any, place: str = "its content") -> Any:
    """Return a JSON value if its types match `kind`; otherwise raise a ValueError.

    A kind is a type (`object` matches everything, and `float` also matches integers), a union of
    types, `[kind]` for a list, `{name: kind}` for an object that has at least these names (a name
    that ends in ? is optional), or `{str: kind}` for an object with any names. Integers that do not
    fit a float match no kind. `place` describes the value in the error message.
    """
    if isinstance(kind, list):
        for i, item in enumerate(matching(value, list, place)):
            matching(item, kind[0], f"item {i} of {place}")
    elif isinstance(kind, dict):
        entries = matching(value, dict, place)
        for name, inner in kind.items():
            names = [name.removesuffix("?")] if isinstance(name, str) else [*entries]
            for present in names:
                if present in entries:
                    matching(entries[present], inner, repr(present))
                elif name == present:
                    raise ValueError(f"{place} has no entry {name!r}")
    elif not _is_instance(value, kind):
        found = _NAMES.get(type(value), type(value).__name__)
        raise ValueError(f"{place} is {found} instead of {_NAMES.get(kind, kind)}")
    elif isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"{place} is too large for a floating-point number")
    return value


def _is_instance(value: Any, kind: Any) -> bool:
    kinds = get_args(kind) or (kind,)
    if isinstance(value, bool):  # Python's bool is a subclass of int
        return bool in kinds or object in kinds
    return isinstance(value, (*kinds, int) if float in kinds else kinds)


def digest(path: Path, remedy: str = RESTORE) -> str:
    """Return the SHA-256 of a regular file's content in hexadecimal."""
    with reading(path, remedy), _open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_characters(text: str, place: str) -> None:
    """Raise UserError if a text contains a lone surrogate, which UTF-8 cannot represent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"{place} contains {text[error.start]!r}, one half of a surrogate pair, which is not a "
            "character: remove it"
        ) from None


def skip_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a UTF-8 file, without a byte order mark at the start of the first line."""
    rest = iter(lines)
    for first in rest:
        yield first.removeprefix(codecs.BOM_UTF8)
        break
    yield from rest
