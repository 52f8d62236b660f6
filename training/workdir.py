"""The folder of a run: what was asked for, by which code, and what came out.

lock            who trains there: held as long as the process lives, however it ends

config.json     the resolved config
run.json        command, overrides, package versions, commit and devices, a run or resume each
log.jsonl       scalars by step, and when; tensorboard/ holds the same
checkpoints/    best and latest
vocabulary/     what turns text to ids and back
eval/SPLIT/     scores, hypotheses and pictures
"""

import contextlib
import errno
import fcntl
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from configs.base import MODELS, Config, base_config
from errors import UserError, first_line
from training.hosts import first, together

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy", "sacrebleu")
VOCABULARIES = "vocabulary"
# Fields that do not say what is computed, but how it is divided over devices and where the corpus
# is; that it is the same one, `check_data` sees.
PLACES = ("mesh.", "data.dir", "data.cache")
_HERE = Path(__file__).parent.parent


def check_workdir(workdir: Path, config: Config) -> None:
    """Refuses a folder that belongs to a run with another config."""
    if (workdir / "config.json").exists():
        _refuse_other_config(load_config(workdir), config, workdir)


# What a disk or its rights can refuse.
_REFUSALS = {
    getattr(errno, name)
    for name in [
        "ENOSPC",
        "EDQUOT",
        "EFBIG",
        "EROFS",
        "EIO",
        "EACCES",
        "EPERM",
        "EEXIST",
        "ENOTDIR",
        "EISDIR",
    ]
}


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """A full disk, say, is no fault of the program's."""
    try:
        yield
    except OSError as error:
        elsewhere = error.filename and not Path(error.filename).is_relative_to(folder)
        if error.errno not in _REFUSALS or elsewhere:
            raise
        raise UserError(
            f"cannot write to {folder}: {error.strerror or error}; put that right, and give the "
            "same command again: what was saved is kept"
        ) from error


@contextlib.contextmanager
def open_workdir(workdir: Path, config: Config, overrides: list[str], data: str) -> Iterator[None]:
    """Makes the folder, where it is new, records this run and the data it is on, and keeps other
    runs out. Of several hosts, the first does it."""
    with contextlib.ExitStack() as stack:
        with together(), writing(workdir):
            if first():
                workdir.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_locked(workdir))
                check_workdir(workdir, config)  # again: somebody may have been faster
                _record(workdir, config, overrides, data)
        with together():
            if not (workdir / "config.json").exists():
                raise UserError(f"{workdir} is not on a disk that all hosts share: take one")
            check_workdir(workdir, config)  # hosts must not differ in theirs
            check_data(workdir, data)
        yield


def _record(workdir: Path, config: Config, overrides: list[str], data: str) -> None:
    path = workdir / "config.json"
    if not path.exists():
        write_whole(path, config.to_json(indent=2, sort_keys=True) + "\n")
    path = workdir / "run.json"
    runs = _read_json(path) if path.exists() else []
    check_data(workdir, data)
    write_whole(path, json.dumps([*runs, _this_run(overrides, data)], indent=2) + "\n")


@contextlib.contextmanager
def _locked(workdir: Path) -> Iterator[None]:
    with (workdir / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"{workdir} is in use by {file.read().strip() or 'another run'}: wait for its end, "
                "or take another --workdir"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        yield  # the system takes the lock back when the process ends, killed or not


def write_whole(path: Path, text: str) -> None:
    """The file as it was or as it should be, whenever the process is killed."""
    scratch = path.with_name(path.name + ".new")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, path)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): take another --workdir") from None


def check_data(workdir: Path, data: str) -> None:
    """Refuses to go on, or to score, with other data than the run was begun with."""
    path = workdir / "run.json"
    begun = _read_json(path)[0]["data"] if path.exists() else data
    if begun != data:
        raise UserError(
            f"the corpus has changed since {workdir} was begun ({begun} then, {data} now): "
            "take another --workdir, or the files it was begun with"
        )


def load_config(workdir: Path) -> Config:
    path = workdir / "config.json"
    if not path.exists():
        raise UserError(f"{workdir} is not a run's folder: it has no config.json")
    kept = _read_json(path)
    name = kept.get("model", {}).get("name")
    if name not in MODELS:
        raise UserError(f"{path} has a model {name!r}: it can be {', '.join(MODELS)}")
    config = base_config(name)  # for fields that are younger than the run
    try:
        config.update(kept)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is of another version of this program ({first_line(error)}): run.json beside "
            "it names its commit"
        ) from error
    return config.lock()


def is_done(workdir: Path) -> bool:
    """Whether a run has come to its end: a quick look, for those who plan what is to be done."""
    folder = workdir / "checkpoints"
    steps = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    if not steps:
        return False
    try:
        return json.loads((folder / str(max(steps)) / "progress" / "metadata").read_bytes())["done"]
    except (OSError, ValueError, KeyError):  # damaged: training will put it aside and go on
        return False


def flat(config: Config) -> dict[str, object]:
    """Dotted field names to values, as JSON keeps them."""
    found = {}

    def visit(node, prefix: str) -> None:
        for name, value in node.items():
            if isinstance(value, dict):
                visit(value, f"{prefix}{name}.")
            else:
                found[prefix + name] = value

    visit(json.loads(config.to_json()), "")
    return found


def _refuse_other_config(old: Config, new: Config, workdir: Path) -> None:
    """What is computed must be the same."""
    before, after = flat(old), flat(new)
    differences = [
        f"{name}: {before.get(name, 'absent')!r} there, {after.get(name, 'absent')!r} here"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and not name.startswith(PLACES)
    ]
    if differences:
        raise UserError(
            f"{workdir} holds a run with another config ({'; '.join(differences[:4])}"
            + (f"; and {len(differences) - 4} more" if len(differences) > 4 else "")
            + "): take another --workdir, or the config it was begun with"
        )


def _this_run(overrides: list[str], data: str) -> dict:
    return {
        "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "overrides": overrides,
        "data": data,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in _PACKAGES},
        "devices": [device.device_kind for device in jax.devices()],
    }


def _commit() -> str:
    """The code's commit, with a + where files differ from it; "" outside a git checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_HERE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
