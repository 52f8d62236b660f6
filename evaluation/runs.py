"""A whole training and a whole evaluation of a run's folder, for the programs and the papers."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from configs.base import Config
from evaluation.registry import EVALUATIONS, REPORTS
from evaluation.results import Wanted
from evaluation.translation_report import report_ensemble
from tasks.registry import make_task
from tasks.task import Params
from training.checkpoints import Checkpoints
from training.devices import check_rows, fit_rows
from training.hosts import first, together
from training.loop import train
from training.workdir import (
    VOCABULARIES,
    check_data,
    check_workdir,
    open_workdir,
    writing,
)


def train_run(config: Config, workdir: Path, mesh: Mesh, overrides: Sequence[str] = ()) -> None:
    """Trains to the end, from where `workdir` stopped."""
    with together():
        check_workdir(workdir, config)
        check_rows(mesh, config)
        task = make_task(config)
    with open_workdir(workdir, config, list(overrides), task.data_name), writing(workdir):
        with together():
            if first():
                task.save_vocabularies(workdir / VOCABULARIES)
        train(task, EVALUATIONS[config.task](task, mesh), config, workdir, mesh)


def score_ensemble(
    config: Config, workdirs: Sequence[Path], mesh: Mesh, checkpoint: str, wanted: Wanted
) -> None:
    """Scores a split by the translators of several runs as one, all of one config but for seeds."""
    models = [_restored(config, workdir, mesh, checkpoint) for workdir in workdirs]
    tasks, params, steps = zip(*models, strict=True)
    with writing(wanted.folder):
        wanted.folder.mkdir(parents=True, exist_ok=True)
        report_ensemble(tasks, params, mesh, wanted._replace(checkpoints=steps))


def _restored(
    config: Config, workdir: Path, mesh: Mesh, checkpoint: str
) -> tuple[Any, Params, list[int]]:
    """A run's task and parameters, and the steps that these are of."""
    task = make_task(fit_rows(mesh, config))
    check_data(workdir, task.data_name)
    settings = config.train
    checkpoints = Checkpoints(workdir, settings.keep, settings.eval_every, read_only=True)
    with contextlib.closing(checkpoints) as found:
        steps = found.find(checkpoint)
        return task, found.restore_params(task, config, mesh, steps), steps


def score_run(config: Config, workdir: Path, mesh: Mesh, checkpoint: str, wanted: Wanted) -> None:
    """Scores a split by one checkpoint or the mean of several, and writes the report."""
    task, params, steps = _restored(config, workdir, mesh, checkpoint)
    with writing(wanted.folder):
        wanted.folder.mkdir(parents=True, exist_ok=True)
        REPORTS[config.task](task, params, mesh, wanted._replace(checkpoints=steps))
