"""How each task is evaluated, by the task's name."""

from collections.abc import Callable

from jax.sharding import Mesh

from evaluation import classification, cloze, labelling, report, translation
from training.loop import Evaluate

EVALUATIONS: dict[str, Callable[..., Evaluate]] = {
    "translation": translation.make_evaluate,
    "labelling": labelling.make_evaluate,
    "classification": classification.make_evaluate,
    "cloze": cloze.make_evaluate,
}
REPORTS: dict[str, Callable[..., None]] = {
    "translation": report.report,
    "labelling": labelling.report,
    "classification": classification.report,
    "cloze": cloze.report,
}


def make_evaluate(name: str, task, mesh: Mesh) -> Evaluate:
    return EVALUATIONS[name](task, mesh)
