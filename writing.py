"""Write files so that a crash leaves the old or the new content, and never a mixture.

JSON for people has rounded floats, and null instead of NaN and infinity.
"""

import contextlib
import errno
import json
import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from errors import UserError

DIGITS = 6  # floats in JSON files are rounded to this many significant digits
# OSErrors with these errno values come from a full or defective disk or from missing permissions.
_DISK_ERRORS = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM,
    errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG,
}  # fmt: skip
# Some network disks cannot synchronize a folder, and a folder without read permission is not
# opened; the content of the file itself has reached the disk in both cases.
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES}
RESUME = "run the same command again to resume from the latest checkpoint"


@contextlib.contextmanager
def writing(folder: Path, remedy: str = RESUME) -> Iterator[None]:
    """Convert disk errors in `folder`, such as a full disk, to a UserError that ends in `remedy`.

    Errors about other files, and errors that do not come from a disk, stay as they are.
    """
    try:
        yield
    except OSError as error:
        if not (_concerns(error.filename, folder) if error.filename else _is_disk_error(error)):
            raise
        file = f" ({error.filename})" if error.filename not in (None, str(folder)) else ""
        raise UserError(
            f"cannot write to {folder}: {error.strerror or error}{file}; fix this and {remedy}"
        ) from error


def _is_disk_error(error: OSError) -> bool:
    return error.errno in _DISK_ERRORS


def _concerns(filename: Any, folder: Path) -> bool:
    """Return whether a file is in `folder`, or `folder` in it, which mkdir(parents=True) names."""
    path, folder = Path(os.fsdecode(filename)).absolute(), folder.absolute()
    return path.is_relative_to(folder) or folder.is_relative_to(path)


def write_bytes(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file atomically: a killed process or a crash leaves the old or the new content.

    `mode` is the mode of the new file, from which the umask removes permissions. A symbolic link
    with this name is replaced and not followed.
    """
    # Processes on several machines, which may share the disk, can have equal process ids.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new, renamed and deleted names in a folder survive a power failure."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def write_text(path: Path, text: str, mode: int = 0o666) -> None:
    """Write UTF-8 text atomically; see `write_bytes`.

    A file name in the text that is not valid UTF-8 is written with escapes such as \\udcff.
    """
    write_bytes(path, text.encode("utf-8", "backslashreplace"), mode)


@contextlib.contextmanager
def write_lines(path: Path) -> Iterator[TextIO]:
    """Yield a UTF-8 file that replaces `path` at the end, or is deleted if an error occurs.

    A pipe or a device is not replaced: lines are written to it directly.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("w", encoding="utf-8") as file:
            yield file
        return
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        with scratch.open("x", encoding="utf-8", errors="backslashreplace") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write a JSON file for people atomically; see `to_json` and `write_bytes`."""
    write_text(path, to_json(value, indent) + "\n")


def to_json(value: Any, indent: int | None = None, compact: bool = False) -> str:
    """Return `value` as JSON text with floats rounded to DIGITS significant digits.

    Rounding never removes the integer part or the first decimal, so counts and times stay exact.
    NaN and infinity, which JSON does not have, become null. Use `json.dumps` where a value must be
    read back exactly, such as in a digest.
    """
    separators = (",", ":") if compact else None
    return json.dumps(_rounded(value), indent=indent, ensure_ascii=False, separators=separators)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(x) for x in value]
    return _round(value) if isinstance(value, float) else value


def _round(x: float) -> float | None:
    if not math.isfinite(x):
        return None
    if x == 0:
        return x
    decimals = DIGITS - 1 - math.floor(math.log10(abs(x)))
    return round(float(x), max(1, decimals))
