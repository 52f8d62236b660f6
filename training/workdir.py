"""The folder of a run: what was asked for, by which code, and what came out.

config.json     the resolved config
run.json        command, overrides, package versions, commit and devices, a run or resume each
log.jsonl       scalars by step; tensorboard/ holds the same
checkpoints/    best and latest
vocabulary/     what turns text to ids and back
eval/SPLIT/     scores, hypotheses and pictures
"""

import importlib.metadata
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import jax

from configs.base import MODELS, Config, base_config
from errors import UserError

_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "numpy", "sacrebleu")
VOCABULARIES = "vocabulary"
_HERE = Path(__file__).parent.parent


def check_workdir(workdir: Path, config: Config) -> None:
    """Refuses a folder that belongs to a run with another config."""
    if (workdir / "config.json").exists():
        _refuse_other_config(load_config(workdir), config, workdir)


def open_workdir(workdir: Path, config: Config, overrides: list[str], data: str) -> None:
    """Makes the folder, where it is new, and records this run and the data it is on."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        path = workdir / "config.json"
        if not path.exists():
            path.write_text(config.to_json(indent=2, sort_keys=True) + "\n")
        runs_path = workdir / "run.json"
        runs = json.loads(runs_path.read_text()) if runs_path.exists() else []
        check_data(workdir, data)
        runs_path.write_text(json.dumps([*runs, _this_run(overrides, data)], indent=2) + "\n")
    except OSError as error:
        raise UserError(f"cannot write to the workdir {workdir}: {error.strerror}") from None


def check_data(workdir: Path, data: str) -> None:
    """Refuses to go on, or to score, with other data than the run was begun with."""
    path = workdir / "run.json"
    begun = json.loads(path.read_text())[0]["data"] if path.exists() else data
    if begun != data:
        raise UserError(
            f"the corpus has changed since {workdir} was begun ({begun} then, {data} now): "
            "take another --workdir, or the files it was begun with"
        )


def load_config(workdir: Path) -> Config:
    path = workdir / "config.json"
    if not path.exists():
        raise UserError(f"{workdir} is not a run's folder: it has no config.json")
    kept = json.loads(path.read_text())
    name = kept.get("model", {}).get("name")
    if name not in MODELS:
        raise UserError(f"{path} has a model {name!r}: it can be {', '.join(MODELS)}")
    config = base_config(name)  # for fields that are younger than the run
    config.update(kept)
    return config.lock()


def _flat(config: Config) -> dict[str, object]:
    """Dotted field names to values, as JSON keeps them."""
    flat = {}

    def visit(node, prefix: str) -> None:
        for name, value in node.items():
            if isinstance(value, dict):
                visit(value, f"{prefix}{name}.")
            else:
                flat[prefix + name] = value

    visit(json.loads(config.to_json()), "")
    return flat


def _refuse_other_config(old: Config, new: Config, workdir: Path) -> None:
    before, after = _flat(old), _flat(new)
    differences = [
        f"{name}: {before.get(name, 'absent')!r} there, {after.get(name, 'absent')!r} here"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
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
