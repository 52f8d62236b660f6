"""The workdir of a run: its config, records and results.

lock            lock file of the training process; the system releases it when the process ends
config.json     the resolved config
signature       the digest of config.json, and its signature by the user who trained the run
initialized.md  which parameters of another run the run started with (train.init_from)
run.json        one entry per start or resume: command, overrides, package versions, commit, devices
status.json     whether the run is complete; if so, its last training step and final checkpoint
log.jsonl       scalars by training step, with the time; tensorboard/ contains the same scalars
checkpoints/    the best and the latest checkpoints
quarantine/     corrupt checkpoints
vocabulary/     the vocabularies and their digests; in initial/, those of another run from which
                they were made (data.vocabularies)
eval/SPLIT/     the report of eval.py: scores, hypotheses or predictions, report.html and plots
eval/NAME/      the report of the test set NAME; eval/tests.md and tests.json are the table of all

Importing this module does not import JAX, because sweep.py and reproduce.py read workdirs before
JAX is configured.
"""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import platform
import reprlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configs.base import Config, base_config
from configs.check import check
from configs.registry import MODELS
from errors import UserError, first_line
from reading import DamagedFile, matching, read_bytes, read_json, reading
from training.signature import check_digest, check_trust, is_signed, sign
from writing import write_bytes, write_json, writing

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy", "sacrebleu")
VOCABULARY_FOLDER = "vocabulary"
# Fields that may change when a run resumes, because they do not affect its results. `check_data`
# checks that data.dir still contains the same corpus.
PLACES = ("mesh.", "data.dir", "data.cache")
LENGTH_SCHEDULES = ("cosine",)  # learning-rate schedules that depend on the number of steps
_ROOT = Path(__file__).parent.parent


def check_name(workdir: Path) -> None:
    """Raise UserError if this folder cannot contain checkpoints that can be read.

    Orbax expands the path of a checkpoint as a pattern, and needs a path in UTF-8.
    """
    if workdir.is_file():
        raise UserError(f"{workdir} is a file: set --workdir to a folder")
    path = str(workdir.absolute())
    found = [c for c in path if c in "*?[]\\" or "\ud800" <= c <= "\udfff"]
    if found:
        raise UserError(
            f"{workdir} cannot contain checkpoints, because its absolute path {path!r} contains "
            f"{found[0]!r}: choose a folder whose path is UTF-8 without * ? [ ] and \\"
        )


def check_workdir(workdir: Path, config: Config) -> None:
    """Raise UserError if the folder belongs to a run with another config."""
    if (workdir / "config.json").exists():
        _check_same_config(load_config(workdir), config, workdir)


@contextlib.contextmanager
def open_workdir(workdir: Path, config: Config, overrides: list[str], data: str) -> Iterator[None]:
    """Create the folder if necessary, lock it, and add an entry to run.json.

    `data` identifies the corpus. In a multi-host run, the first host writes these files, and all
    hosts check them.
    """
    from training.hosts import (  # late, because this module imports JAX
        is_first_process,
        raise_on_all_hosts,
    )

    with contextlib.ExitStack() as stack:
        with raise_on_all_hosts(), writing(workdir):
            if is_first_process():
                workdir.mkdir(parents=True, exist_ok=True)
                stack.enter_context(_locked(workdir))
                # Check again under the lock: another run may have used the folder meanwhile.
                check_workdir(workdir, config)
                _record(workdir, config, overrides, data)
        with raise_on_all_hosts():
            if not (workdir / "config.json").exists():
                raise UserError(
                    f"{workdir} is not on a disk that all hosts share: set --workdir to a folder "
                    "on a shared disk"
                )
            check_workdir(workdir, config)  # every host must have the same config
            check_data(workdir, data)
        yield


def _record(workdir: Path, config: Config, overrides: list[str], data: str) -> None:
    path = workdir / "config.json"
    signed = path.exists() and is_signed(workdir, read_bytes(path))
    if not signed or _extends(flat(load_config(workdir)), flat(config)):
        # The config of the command line, which this user trusts, replaces an unsigned config.json,
        # from which it differs only in PLACES, and that of a run with fewer training steps.
        (workdir / "signature").unlink(missing_ok=True)
        content = (config.to_json(indent=2, sort_keys=True) + "\n").encode()
        write_bytes(path, content)
        sign(workdir, content)
    check_data(workdir, data)
    write_json(workdir / "run.json", [*starts(workdir), _this_run(overrides, data)])


@contextlib.contextmanager
def _locked(workdir: Path) -> Iterator[None]:
    with (workdir / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"{workdir} is in use by {file.read().strip() or 'another run'}: wait until it "
                "ends, or use another --workdir"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        yield


def starts(workdir: Path) -> list[dict[str, Any]]:
    """Return the entries of run.json, one per start or resume; empty if there is no such file."""
    path = workdir / "run.json"
    if not path.exists():
        return []
    found = read_json(path, [{"data": str}])
    if not found:
        raise DamagedFile(f"{path} is corrupt (it has no entries)")
    return found


def check_data(workdir: Path, data: str) -> None:
    """Raise UserError if the run was started with a different corpus than `data`."""
    runs = starts(workdir)
    started = runs[0]["data"] if runs else data
    if started != data:
        raise UserError(
            f"the corpus has changed since {workdir} was started ({started} then, {data} now): "
            "use another --workdir, or restore the original files"
        )


def load_config(workdir: Path, flag: str = "--workdir", signed: bool = False) -> Config:
    """Read the config of a run; fields that newer versions have added get their default values.

    `flag` is the flag that names the folder, for messages. With `signed`, raise UserError if this
    user has not signed config.json; the file is read once, so the verified bytes are parsed.
    """
    path = workdir / "config.json"
    if not path.exists():
        lacks = "has no config.json" if workdir.exists() else "does not exist"
        raise UserError(
            f"{workdir} is not the folder of a run, because it {lacks}: set {flag} "
            "to a folder that train.py created"
        )
    content = read_bytes(path)
    check_digest(workdir, content)
    with reading(path):
        saved = matching(json.loads(content), {"model": {"name": str}})
    name = saved["model"]["name"]
    if name not in MODELS:
        raise UserError(
            f"{path} has the unknown model {name!r}: use a run of one of the models of this "
            f"version, which are {', '.join(MODELS)}"
        )
    config = base_config(name)
    try:
        _check_types(saved, config.to_dict())
        config.update(saved)
        check(config)
    except (ValueError, OverflowError, UserError) as error:
        raise UserError(
            f"{path} is damaged, or was written by another version of this program "
            f"({first_line(error)}): restore it from a backup, or use the commit that run.json in "
            "the same folder records"
        ) from error
    if signed:
        check_trust(workdir, content, config)
    return config.lock()


def _check_types(saved: dict[str, Any], defaults: dict[str, Any], prefix: str = "") -> None:
    """Raise ValueError if a saved field is unknown or has another type than its default."""
    for name, value in saved.items():
        field = prefix + name
        if name not in defaults:
            raise ValueError(f"this version has no field {field}")
        default, place = defaults[name], f"the value {reprlib.repr(value)} of {field}"
        if isinstance(default, dict):
            _check_types(matching(value, dict, place), default, f"{field}.")
        else:  # JSON has no tuples
            matching(value, [str] if isinstance(default, tuple) else type(default), place)


def write_status(workdir: Path, step: int, final: Path | None) -> None:
    """Write status.json, at a start at training step `step` or at the end of the run.

    `final` is the final checkpoint if the run is complete.
    """
    status: dict[str, Any] = {"step": step, "done": final is not None}
    if final is not None:
        status["checkpoint"] = str(final.relative_to(workdir.absolute()))
    write_json(workdir / "status.json", status, indent=None)


def is_done(workdir: Path) -> bool:
    """Return whether a run is complete and its final checkpoint still exists."""
    try:
        status = read_json(workdir / "status.json", {"done": bool, "checkpoint": str})
        return status["done"] and (workdir / status["checkpoint"]).is_dir()
    except (UserError, OSError, ValueError):  # a file is missing or corrupt
        return False


def flat(config: Config) -> dict[str, object]:
    """Return a config as a flat dictionary with dotted field names and JSON values."""
    fields = {}

    def visit(node, prefix: str) -> None:
        for name, value in node.items():
            if isinstance(value, dict):
                visit(value, f"{prefix}{name}.")
            else:
                fields[prefix + name] = value

    visit(json.loads(config.to_json()), "")
    return fields


_DECODE_ADVICE = (
    "; eval.py and predict.py take decode settings without training, such as --decode.beam=5"
)


def _check_same_config(old: Config, new: Config, workdir: Path) -> None:
    before, after = flat(old), flat(new)
    if _extends(before, after):
        if old.optimizer.schedule in LENGTH_SCHEDULES:
            raise UserError(
                f"{workdir} cannot be trained for more steps, because its learning rate "
                f"(optimizer.schedule={old.optimizer.schedule}) depends on their number: start a "
                f"new run from its parameters, with --init_from={workdir}@last and another "
                "--workdir"
            )
        return
    differences = [
        f"{name}: {before.get(name, 'absent')!r} there, {after.get(name, 'absent')!r} here"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and not name.startswith(PLACES)
    ]
    if differences:
        raise UserError(
            f"{workdir} holds a run with another config ({'; '.join(differences[:4])}"
            + (f"; and {len(differences) - 4} more" if len(differences) > 4 else "")
            + "): use another --workdir, or the original config"
            + (_DECODE_ADVICE if any(x.startswith("decode.") for x in differences) else "")
        )


def _extends(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether two flat configs differ only in a larger number of training steps."""
    names = {
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name) and not name.startswith(PLACES)
    }
    if names == {"train.epochs"}:
        return not before["train.steps"] and before["train.epochs"] < after["train.epochs"]
    return names == {"train.steps"} and 0 < before["train.steps"] < after["train.steps"]


def _this_run(overrides: list[str], data: str) -> dict[str, Any]:
    import jax

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
    """Return the git commit, with a + if tracked files are modified; "" outside a checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(_ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (
            "+" if git("status", "--porcelain", "--untracked-files=no") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
