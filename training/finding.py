"""Find the folders of runs that a flag lists, by their names or with patterns."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from errors import UserError

MOST_NAMES = 3  # number of names in a message

logger = logging.getLogger("alignax")


def find_workdirs(text: str, flag: str) -> list[Path]:
    """Return the folders of runs that a flag lists, separated by commas.

    An entry may be a pattern such as sweeps/a/runs/*/seed0. The names of folders may contain
    commas themselves: an entry ends at the first comma at which it names a run. A run that is
    named more than once is used once, and a warning says so.
    """
    parts = [part for part in text.split(",") if part]
    if text and not parts:
        raise UserError(f"{flag}={text} names no run: list folders that train.py created")
    found: dict[Path, Path] = {}
    repeated: list[str] = []
    first = 0
    while first < len(parts):
        for end in range(first + 1, len(parts) + 1):
            folders = _workdirs(",".join(parts[first:end]), flag)
            if folders:
                break
        else:
            raise _no_run(parts[first:], flag)
        for folder in folders:
            if found.setdefault(folder.resolve(), folder) is not folder:
                repeated.append(str(folder))
        first = end
    if repeated:
        logger.warning("%s repeats %s: every run is used once", flag, _some(repeated))
    return list(found.values())


def _no_run(parts: Sequence[str], flag: str) -> UserError:
    """Return the error for an entry that names no run; it may contain several parts of the list."""
    entry, whole = parts[0], ",".join(parts)
    if not _is_pattern(entry):
        longer = f" (nor is a longer part of {whole[:200]})" if len(parts) > 1 else ""
        lacks = "has no config.json" if Path(entry).exists() else "does not exist"
        return UserError(
            f"{flag}: {entry} is not the folder of a run, because it {lacks}{longer}: "
            "list folders that train.py created, separated by commas"
        )
    matches = sorted(map(str, _matches(entry, flag)))
    if not matches:
        return UserError(
            f"{flag}: the pattern {entry} matches no file or folder: correct it, or list folders "
            "that train.py created, separated by commas"
        )
    return UserError(
        f"{flag}: the pattern {entry} matches {_some(matches)}, but no "
        "run, because none of them is a folder with a config.json: match the folders that train.py "
        f"created, which may be one level deeper, as in {entry.rstrip('/')}/*"
    )


def _some(names: Sequence[str]) -> str:
    """Join the first MOST_NAMES names; an ellipsis stands for the others."""
    more = ", …" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _workdirs(entry: str, flag: str) -> list[Path]:
    """Return the folders of runs that an entry names; [] if there are none."""
    if _is_run(Path(entry)):
        return [Path(entry)]
    if not _is_pattern(entry):
        return []
    return sorted(filter(_is_run, _matches(entry, flag)))


def _is_run(folder: Path) -> bool:
    # Unlike Path.exists, os.path.exists returns False for a name that is too long.
    return os.path.exists(folder / "config.json")


def _is_pattern(entry: str) -> bool:
    return re.search(r"[*?\[]", entry) is not None


def _matches(entry: str, flag: str) -> Iterator[Path]:
    """Return the files and folders that a pattern matches."""
    path = Path(entry)
    if any("**" in part and part != "**" for part in path.parts):
        raise UserError(
            f"{flag}: the pattern {entry} has ** next to other characters: use *, or ** as the "
            "whole name of a folder, such as runs/**/seed0"
        )
    root, pattern = (Path("/"), entry.lstrip("/")) if path.is_absolute() else (Path(), entry)
    return root.glob(pattern.rstrip("/"))
