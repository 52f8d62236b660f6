"""Test sets that are given as files, for eval.py --test; they are not part of a corpus."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from errors import UserError
from reading import digest, reading

# The name of a test set is also the name of a folder and the beginning of file names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SPLITS = ("train", "valid", "test")  # eval.py writes the reports of splits to these folders
_CORRECT = "correct --test"
SCORE_TABLE_FILES = (
    "tests.md",
    "tests.json",
)  # the table of several test sets, beside their folders


class EvalSet(NamedTuple):
    """A test set: its name, and its files."""

    name: str
    files: tuple[Path, ...]

    def digests(self) -> list[dict[str, str]]:
        """Return the path and the SHA-256 of each file; raise UserError if it cannot be read."""
        for path in self.files:
            with reading(path, _CORRECT):  # is_file raises an OSError for a long name
                if not path.is_file():
                    problem = "is not a file" if path.exists() else "does not exist"
                    raise UserError(f"the test set {self.name}: {path} {problem}: {_CORRECT}")
        return [{"path": str(path), "sha256": digest(path, _CORRECT)} for path in self.files]


def parse_eval_sets(texts: Iterable[str]) -> list[EvalSet]:
    """Parse the values of --test, such as flickr2017=test.de,test.en."""
    found: dict[str, EvalSet] = {}
    for text in texts:
        name, _, files = text.partition("=")
        paths = files.split(",")
        if not all(paths):
            raise UserError(
                f"--test={text} is invalid: write a name and the files of the test set, such as "
                "--test=news=news.de,news.en"
            )
        _check_name(name)
        if name in found:
            raise UserError(
                f"--test={name}=... is given twice: choose another name for one of them"
            )
        found[name] = EvalSet(name, tuple(map(Path, paths)))
    return list(found.values())


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UserError(
            f"--test: {name!r} is not the name of a test set: use at most 100 letters, digits, "
            "dots, hyphens and underscores, and begin with a letter or digit, because a folder "
            "gets this name"
        )
    if name in (*_SPLITS, *SCORE_TABLE_FILES):
        kind = "a split" if name in _SPLITS else "a file of eval.py"
        raise UserError(
            f"--test: a test set cannot have the name {name!r}, which is that of {kind}: choose "
            "another name"
        )
