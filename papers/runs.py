"""Trains and scores a config, as train.py and eval.py would, where that is not done yet."""

import contextlib
import io
import json
from pathlib import Path

from configs.base import Config
from configs.check import check
from evaluation.registry import REPORTS, make_evaluate
from evaluation.results import Wanted
from tasks.registry import make_task
from training.checkpoints import Checkpoints
from training.devices import check_rows, make_mesh
from training.loop import train
from training.workdir import check_workdir, open_workdir


def scores_of(config: Config, workdir: Path, split: str) -> dict[str, float]:
    """The scores of the best checkpoint of this config on a split."""
    check(config)
    check_workdir(workdir, config)
    folder = workdir / "eval" / split
    if not (folder / "scores.json").exists():
        mesh = make_mesh()
        check_rows(mesh, config)
        task = make_task(config)
        open_workdir(workdir, config, [], task.data_name)
        train(task, make_evaluate(config.task, task, mesh), config, workdir, mesh)
        with contextlib.closing(Checkpoints(workdir, config.train.keep, read_only=True)) as kept:
            steps = kept.find("best")
            params = kept.restore_params(task, config, mesh, steps)
        folder.mkdir(parents=True, exist_ok=True)
        decode = config.decode if "decode" in config else None
        wanted = Wanted(split, steps, folder, pictures=1, page=0, decode=decode)
        with contextlib.redirect_stdout(io.StringIO()):  # the table is what a person wants to see
            REPORTS[config.task](task, params, mesh, wanted)
    return json.loads((folder / "scores.json").read_text())["scores"]
