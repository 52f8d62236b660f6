"""Restore a trained run: its task and the parameters of a checkpoint."""

import contextlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from jax.sharding import Mesh

from configs.base import Config
from errors import UserError
from tasks.registry import make_task
from training.checkpoints import Checkpoints
from training.devices import fit_rows
from training.state import Params
from training.vocabularies import check_vocabularies, compare_vocabularies, kept_initial
from training.workdir import VOCABULARY_FOLDER, check_data, load_config

logger = logging.getLogger("alignax")


class RestoredRun(NamedTuple):
    """A run's task and parameters, and the training steps of the restored checkpoints."""

    task: Any
    params: Params
    steps: list[int]


def restore_run(
    config: Config, workdir: Path, mesh: Mesh, checkpoint: str, corpus: bool = True
) -> RestoredRun:
    """Restore the checkpoint "best", "last" or "average", or the one of a given training step.

    Without `corpus`, the task is created from the vocabularies saved in the workdir, which are
    enough to translate new text.
    """
    vocabularies = workdir / VOCABULARY_FOLDER
    if corpus:
        task = make_task(fit_rows(mesh, config), initial=kept_initial(vocabularies))
        check_data(workdir, task.data_name)
        compare_vocabularies(task.prepared.folder, vocabularies)
        try:
            check_vocabularies(vocabularies)
        except UserError as error:
            logger.warning(
                "%s. Scores are not affected: they use the vocabularies of the prepared corpus, "
                "which match the recorded digests", error,
            )  # fmt: skip
    else:
        check_vocabularies(vocabularies)
        task = make_task(config, vocabularies)
    settings = config.train
    checkpoints = Checkpoints(workdir, settings.keep, settings.eval_every, read_only=True)
    with contextlib.closing(checkpoints):
        steps = checkpoints.find(checkpoint)
        return RestoredRun(task, checkpoints.restore_params(task, config, mesh, steps), steps)


def restore_runs(
    workdirs: Iterable[Path | str],
    mesh: Mesh,
    checkpoints: Iterable[str],
    flag: str = "--workdir",
) -> list[RestoredRun]:
    """Restore every checkpoint of every run in `workdirs`, the value of `flag`, without corpora."""
    return [
        restore_run(load_config(workdir, flag), workdir, mesh, checkpoint, corpus=False)
        for workdir in map(Path, workdirs)
        for checkpoint in checkpoints
    ]
