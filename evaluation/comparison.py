"""Compare a translation run with another run, for eval.py --against."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from errors import UserError
from evaluation.bootstrap import (
    EXAMPLE_SCORES,
    ExampleStatistics,
    confidence_interval,
    format_p,
    paired_bootstrap_p,
    text_statistics,
)
from evaluation.evaluator import Translated, references
from evaluation.metrics import metric_of
from evaluation.scores import sentence_chrf
from reading import read_lines
from tasks.translation import Translation

MOST_DIFFERENT = 5  # number of sentences to show per direction: this run better, or worse


def other_hypotheses(task: Translation, split: str, folder: Path) -> list[str]:
    """Read the hypotheses of another run, after checking that they may belong to this split."""
    hypotheses = read_lines(folder / "hypotheses.txt", "score the run again with eval.py")
    sentences = len(references(task, split))
    if sentences != len(hypotheses):
        raise UserError(
            f"{folder} has {len(hypotheses):,} hypotheses, but {split} has {sentences:,} "
            "sentences: compare runs on the same corpus and split, or on the same test set"
        )
    return hypotheses


def compare_runs(
    task: Translation, translated: list[Translated], others: list[str], folder: Path
) -> dict[str, Any]:
    """Compare the best hypotheses of this run with `others`, the hypotheses in `folder`.

    In the result, "scores" maps each metric and run ("this" or "other") to the score, half the
    width of its 95 % confidence interval and the p-value of the paired bootstrap. "sentences" lists
    the sentences with the largest differences in chrF.
    """
    hypotheses = [t.best.text for t in translated]
    references = [t.references for t in translated]
    statistics = {
        name: text_statistics(texts, references, task.lowercase)
        for name, texts in (("other", others), ("this", hypotheses))
    }
    scores = {key: _compared(key, statistics) for key in statistics["this"]}
    sentences = _most_different(task, translated, others)
    return {"run": str(folder), "scores": scores, "sentences": sentences}


def _compared(
    key: str, statistics: dict[str, dict[str, ExampleStatistics]]
) -> dict[str, dict[str, float]]:
    """Compare one score of both runs, given their example statistics."""
    score = EXAMPLE_SCORES[key].score
    rows = {name: found[key] for name, found in statistics.items()}
    p = paired_bootstrap_p([rows["this"]], [rows["other"]], score)
    entry = {}
    for name, sentences in rows.items():
        value, low, high = confidence_interval(sentences, score)
        entry[name] = {"score": value, "interval": (high - low) / 2, "p": p}
    return entry


def _most_different(
    task: Translation, translated: list[Translated], others: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the sentences whose chrF differs most between the two runs.

    The sentences are sorted by this run's chrF minus the other run's chrF, in descending order.
    """
    rows = []
    for t, other in zip(translated, others, strict=True):
        if t.best.text != other:
            both = [sentence_chrf(x, t.references, task.lowercase) for x in (t.best.text, other)]
            rows.append(
                {
                    "source": task.source.surface(t.pair.source),
                    "reference": " | ".join(t.references),
                    "this": t.best.text, "other": other,
                    "chrf_this": both[0], "chrf_other": both[1],
                }
            )  # fmt: skip

    def gain(row: dict[str, Any]) -> float:
        return row["chrf_this"] - row["chrf_other"]

    rows.sort(key=gain, reverse=True)
    better = [row for row in rows if gain(row) > 0][:MOST_DIFFERENT]
    worse = [row for row in rows if gain(row) < 0][-MOST_DIFFERENT:]
    return better + worse


def comparison_rows(comparison: dict[str, Any]) -> list[dict[str, str]]:
    """Return the scores of a comparison as formatted text, one row per metric."""
    rows = []
    for key, runs in comparison["scores"].items():
        metric, this, other = metric_of(key), runs["this"], runs["other"]

        def score(run: dict[str, Any], metric: Any = metric) -> str:
            return f"{metric.text(run['score'])} ± {metric.text(run['interval'])}"

        difference = metric.scale * (this["score"] - other["score"])
        rows.append(
            {
                "name": metric.name, "label": metric.label,
                "this": score(this), "other": score(other),
                "difference": f"{difference:+.2f}".replace("-", "−"), "p": format_p(this["p"]),
            }
        )  # fmt: skip
    return rows
