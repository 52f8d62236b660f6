"""The vocabularies of a run: written once, and compared whenever the run is used again."""

import logging
from collections.abc import Mapping
from pathlib import Path

from errors import UserError
from reading import DamagedFile, digest, read_bytes, read_json
from writing import write_bytes, write_json

logger = logging.getLogger("alignax")
INITIAL = "initial"  # folder of the vocabularies of another run (data.vocabularies)
DIGESTS = "sha256.json"  # maps the name of each vocabulary file to its SHA-256


def keep_vocabularies(source: Path, folder: Path) -> None:
    """Copy the vocabularies of a prepared corpus to a run, or check that they have not changed.

    A vocabulary that the run has lost is written again.
    """
    folder.mkdir(exist_ok=True)
    compare_vocabularies(source, folder)
    known, found = recorded_digests(folder), _digests(source)
    for name, code in found.items():
        path = folder / name
        if path.exists() and digest(path) == code:
            continue
        if known:
            logger.warning("%s is missing or damaged: writing it again", path)
        write_bytes(path, read_bytes(source / name))
    if known != found:
        write_json(folder / DIGESTS, found)


def keep_initial(initial: Mapping[str, Path], folder: Path) -> None:
    """Copy the vocabularies of another run, from which a corpus is prepared, to a run.

    The run can then prepare its corpus again without the other run.
    """
    target = folder / INITIAL
    for name, path in initial.items():
        target.mkdir(parents=True, exist_ok=True)
        if path.parent != target:
            write_bytes(target / f"{name}.vocab", read_bytes(path))
    if initial:
        write_json(target / DIGESTS, _digests(target))


def kept_initial(folder: Path) -> dict[str, Path]:
    """Return the files that `keep_initial` has written, by the names of the vocabularies."""
    check_vocabularies(folder / INITIAL)
    return {path.stem: path for path in sorted((folder / INITIAL).glob("*.vocab"))}


def compare_vocabularies(source: Path, folder: Path) -> None:
    """Raise UserError if the vocabularies of a prepared corpus are not those of the run."""
    found = _digests(source)
    known = vocabulary_digests(folder)
    different = [name for name, code in known.items() if found.get(name) != code]
    if different:
        raise UserError(
            f"the prepared corpus {source} has another {different[0]} than {folder}: delete the "
            "folder of the prepared corpus to prepare it again, or use another --workdir"
        )


def check_vocabularies(folder: Path) -> None:
    """Raise UserError if a vocabulary of a run has changed since train.py wrote it."""
    known, found = recorded_digests(folder), _digests(folder)
    for name, code in known.items():
        if found.get(name) != code:
            raise DamagedFile(
                f"{folder / name} is missing or corrupt (its SHA-256 is not the one in {DIGESTS})",
                "restore it from a backup, or run the train.py command of this run again to "
                "replace it",
            )


def vocabulary_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the vocabularies of a run, by file name."""
    # Runs of older versions have no record of them.
    return recorded_digests(folder) or _digests(folder)


def recorded_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the vocabularies of a run, by file name; {} if they are unknown."""
    path = folder / DIGESTS
    remedy = "restore it from a backup, or delete it if the vocabularies are intact"
    return read_json(path, {str: str}, remedy) if path.exists() else {}


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: digest(path) for path in sorted(folder.glob("*.vocab"))}
