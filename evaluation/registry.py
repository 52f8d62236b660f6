"""How each task is evaluated, by the task's name."""

from collections.abc import Callable

from evaluation import classification, cloze, labelling, translation, translation_report
from training.loop import Evaluate

EVALUATIONS: dict[str, Callable[..., Evaluate]] = {
    "translation": translation.make_evaluate,
    "labelling": labelling.make_evaluate,
    "classification": classification.make_evaluate,
    "cloze": cloze.make_evaluate,
}
REPORTS: dict[str, Callable[..., None]] = {
    "translation": translation_report.report,
    "labelling": labelling.report,
    "classification": classification.report,
    "cloze": cloze.report,
}
