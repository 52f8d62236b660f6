"""How each task is evaluated, by the task's name."""

from collections.abc import Callable

from jax.sharding import Mesh

from evaluation import report, translation
from training.loop import Evaluate

EVALUATIONS: dict[str, Callable[..., Evaluate]] = {"translation": translation.make_evaluate}

REPORTS: dict[str, Callable[..., None]] = {"translation": report.report}


def make_evaluate(name: str, task, mesh: Mesh) -> Evaluate:
    return EVALUATIONS[name](task, mesh)
