"""Faithfulness in reports: which examples are measured, and how the measures are shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from data.batches import Batches
from data.vocabulary import EOS
from errors import UserError
from evaluation.evaluator import Translated
from evaluation.explained import PredictionExplainer, TranslationExplainer
from evaluation.faithfulness import measure_faithfulness
from evaluation.metrics import FAITHFULNESS
from evaluation.predictions import evenly
from evaluation.progress import announce
from tasks.task import Params, Task
from tasks.translation import Translation


def no_attention() -> UserError:
    """Return the error for --faithfulness with a model that has no attention."""
    return UserError(
        "--faithfulness needs a model with attention over its input, which this run does not have: "
        "leave it out"
    )


def check_translation(task: Translation, params: Params) -> None:
    """Raise UserError if the model has no attention."""
    token = jax.ShapeDtypeStruct((1, 1), np.int32)
    if not jax.eval_shape(task.attentions, params, token, token):
        raise no_attention()


def explain_translations(
    task: Translation, params: Params, mesh: Mesh, translated: Sequence[Translated], count: int
) -> dict[str, Any]:
    """Measure the best hypotheses of `count` evenly spaced sentences; return {} if count is 0."""
    if not count:
        return {}
    announce("measuring faithfulness")
    chosen = [translated[i] for i in evenly(len(translated), count)]
    examples = [
        {"source": [*task.source.encode(t.pair.source), EOS], "target": t.best.ids}
        for t in chosen
        if len(t.best.ids)
    ]
    return {
        "faithfulness": measure_faithfulness(TranslationExplainer(task), params, mesh, examples)
    }


def check_predictions(task: Task, params: Params, split: str) -> None:
    """Raise UserError if the model, of a task without decoding, has no attention."""
    predictor: Any = task
    if not jax.eval_shape(predictor.predict, params, Batches(*task.split(split)).shapes[0])[1]:
        raise no_attention()


def explain_predictions(
    task: Task, params: Params, mesh: Mesh, split: str, count: int
) -> dict[str, Any]:
    """Measure the predictions of `count` evenly spaced examples; return {} if count is 0."""
    if not count:
        return {}
    announce("measuring faithfulness")
    examples = task.split(split)[0]
    chosen = np.array(evenly(len(examples), count))
    rows = list(examples.examples(chosen))
    return {"faithfulness": measure_faithfulness(PredictionExplainer(task), params, mesh, rows)}


def describe_faithfulness(summary: Mapping[str, float]) -> dict[str, Any] | None:
    """Return the size of the sample as a text, and one row per measure; None if there are none.

    A row has the name of the measure, its value, its 95 % confidence interval and its unit.
    """
    rows = []
    for key, metric in FAITHFULNESS.items():
        if key in summary:
            value, low, high = (metric.text(summary[key + end]) for end in ("", "_low", "_high"))
            rows.append({
                "name": metric.full_name, "unit": metric.unit, "value": value,
                "low": low, "high": high,
            })  # fmt: skip
    if not rows:
        return None
    sample = f"{summary['decisions']:,} predictions in {summary['examples']:,} examples"
    return {"sample": sample, "rows": rows}


def print_faithfulness(summary: Mapping[str, float]) -> None:
    """Print one line per measure, with its 95 % confidence interval; nothing if there are none."""
    described = describe_faithfulness(summary)
    if not described:
        return
    rows = described["rows"]
    width = max(len(row["name"]) for row in rows)
    print(f"\nFaithfulness of {described['sample']}, with 95 % confidence intervals")
    for row in rows:
        print(f"{row['name']:>{width}}: {row['value']} [{row['low']}, {row['high']}] {row['unit']}")
