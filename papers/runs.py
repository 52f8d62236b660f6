"""The scores of a config: trained and scored where that is not done yet."""

import contextlib
import io
import json
from pathlib import Path

from configs.base import Config
from configs.check import check
from evaluation.results import Wanted
from evaluation.runs import score_run, train_run
from training.checkpoints import Checkpoints
from training.devices import make_mesh
from training.workdir import check_workdir


def scores_of(config: Config, workdir: Path, split: str) -> dict[str, float]:
    """The scores of the best checkpoint of this config on a split."""
    check(config)
    check_workdir(workdir, config)
    folder, mesh = workdir / "eval" / split, make_mesh()
    if not _complete(workdir):
        train_run(config, workdir, mesh)
    if _scored(folder) != _best(workdir):
        decode = config.decode if "decode" in config else None
        wanted = Wanted(split, folder, pictures=1, page=0, decode=decode)
        with contextlib.redirect_stdout(io.StringIO()):  # the table is what a person wants to see
            score_run(config, workdir, mesh, "best", wanted)
    return json.loads((folder / "scores.json").read_text())["scores"]


def _complete(workdir: Path) -> bool:
    if not (workdir / "checkpoints").is_dir():
        return False
    with contextlib.closing(Checkpoints(workdir, read_only=True)) as checkpoints:
        latest = checkpoints.latest
        return latest is not None and checkpoints.progress(latest)["done"]


def _best(workdir: Path) -> list[int]:
    with contextlib.closing(Checkpoints(workdir, read_only=True)) as checkpoints:
        return checkpoints.find("best")


def _scored(folder: Path) -> list[int] | None:
    """The checkpoints that the scores there are of: a person may have looked at others."""
    path = folder / "scores.json"
    return json.loads(path.read_text())["checkpoints"] if path.exists() else None
