"""Load the runs of the lab."""

from collections.abc import Sequence
from pathlib import Path

import jax

from serving.prediction import ClassificationRun, ClozeRun, LabellingRun
from serving.run import LabRun
from serving.translation import TranslationRun
from terminal import clean
from training.devices import make_mesh
from training.restore import restore_runs

LAB_RUNS: dict[str, type[LabRun]] = {
    "translation": TranslationRun,
    "classification": ClassificationRun,
    "labelling": LabellingRun,
    "cloze": ClozeRun,
}


def load_runs(workdirs: Sequence[Path], checkpoint: str) -> dict[str, LabRun]:
    """Restore a checkpoint of every run; return the runs by the names of their folders.

    They use one device, because requests contain single sentences.
    """
    mesh = make_mesh(jax.devices()[:1])
    found: dict[str, LabRun] = {}
    for workdir in workdirs:
        name = clean(str(workdir))
        (run,) = restore_runs([str(workdir)], mesh, [checkpoint], "--runs")
        found[name] = LAB_RUNS[run.task.config.task](name, run, mesh)
    return found
