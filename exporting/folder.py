"""The folder that export.py writes: complete, or not there at all."""

import contextlib
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from configs.base import Config, base_config
from errors import UserError
from training.vocabularies import keep_vocabularies
from training.workdir import VOCABULARY_FOLDER, flat
from writing import sync_folder, write_bytes, writing

# Config fields that name folders of one machine, and data.vocabularies, of which some values are
# valid only together with train.init_from.
_MACHINE_FIELDS = ("data.dir", "data.cache", "train.init_from", "data.vocabularies")


def check_target(folder: Path) -> None:
    """Raise UserError if `folder`, the value of --out, exists and is not an empty folder."""
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() or folder.is_symlink():
        raise UserError(
            f"--out={folder} already exists and is not an empty folder: choose another folder, or "
            "delete it first"
        )


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Provide an empty folder that is renamed to `folder` on success and deleted on failure.

    It is next to `folder`, so the new folder appears with all of its files or not at all.
    """
    check_target(folder)
    folder = folder.absolute()
    created = [parent for parent in folder.parents if not parent.exists()]  # innermost first
    with writing(folder, "run the same command again"), _terminable():
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.new")
        scratch.mkdir()
        try:
            yield scratch
            check_target(folder)  # another process may have used the folder meanwhile
            os.replace(scratch, folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            for parent in created:
                with contextlib.suppress(OSError):  # the folder is not empty after a success
                    parent.rmdir()


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Raise SystemExit at SIGTERM, so that the unfinished folder is deleted."""

    def leave(number: int, frame: Any) -> NoReturn:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # Python allows signal handlers to be set in the main thread only
        return
    previous = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def write_vocabularies(task: Any, folder: Path) -> None:
    """Copy the vocabularies of a task, with their digests, to the subfolder "vocabulary"."""
    keep_vocabularies(task.prepared.folder, folder / VOCABULARY_FOLDER)


def write_config(config: Config, folder: Path) -> None:
    """Write config.json without the folders of this machine, which mean nothing elsewhere."""
    portable = config.copy_and_resolve_references().unlock()
    defaults = flat(base_config(config.model.name))
    portable.update_from_flattened_dict({name: defaults[name] for name in _MACHINE_FIELDS})
    content = portable.to_json(indent=2, sort_keys=True) + "\n"
    write_bytes(folder / "config.json", content.encode())
