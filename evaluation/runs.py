"""A whole training and a whole evaluation of a run's folder, for the programs and the papers."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from jax.sharding import Mesh

from configs.base import Config
from evaluation.registry import EVALUATIONS, REPORTS
from evaluation.results import Wanted
from evaluation.translation_report import report_ensemble
from tasks.registry import make_task
from training.checkpoints import Checkpoints
from training.devices import check_rows
from training.hosts import first, together
from training.loop import train
from training.workdir import (
    VOCABULARIES,
    check_data,
    check_workdir,
    load_config,
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
    """Scores a split of a config's corpus by the translators of several runs as one."""
    tasks, params = [], []
    for workdir in workdirs:
        own = load_config(workdir)
        own.data = config.data
        task = make_task(own)
        check_data(workdir, task.data_name)
        with contextlib.closing(Checkpoints(workdir, read_only=True)) as checkpoints:
            found = checkpoints.find(checkpoint)
            params.append(checkpoints.restore_params(task, own, mesh, found))
        tasks.append(task)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    report_ensemble(tasks, params, mesh, wanted)


def score_run(config: Config, workdir: Path, mesh: Mesh, checkpoint: str, wanted: Wanted) -> None:
    """Scores a split by one checkpoint or the mean of several, and writes the report."""
    checkpoints = Checkpoints(workdir, config.train.keep, read_only=True)
    wanted = wanted._replace(checkpoints=checkpoints.find(checkpoint))
    check_rows(mesh, config)
    task = make_task(config)
    check_data(workdir, task.data_name)
    params = checkpoints.restore_params(task, config, mesh, wanted.checkpoints)
    checkpoints.close()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    REPORTS[config.task](task, params, mesh, wanted)
