"""Whether a row differs from the one above by more than chance.

By the paired bootstrap over examples, of the mean over seeds, where each example has a result of
its own: translations and answers. Else by Welch's t-test over seeds, which needs several, and is
weak with few.
"""

import math

import numpy as np
from scipy import stats

from evaluation.bootstrap import (
    Statistics,
    bleu_score,
    bleu_statistics,
    mean_score,
    paired_bootstrap_p,
    share,
)
from evaluation.scores import exact_matches
from evaluation.translation import references
from evaluation.translation_report import read_hypotheses
from papers.measures import MEASURES, Measure
from papers.plan import Plan
from papers.scoring import Reports
from papers.table import Row
from tasks.translation import Translation


def values(reports: Reports, row: Row, measure: Measure) -> list[float]:
    """What was measured for a row, a seed each."""
    found = (measure.of(report) for report in reports.get(row.name, {}).values())
    return [value for value in found if value is not None]


def significance(plan: Plan, reports: Reports) -> dict[str, str]:
    """By row, p of its difference to the one above by the table's first measure, for people."""
    name = plan.table.measures[0]
    measured = [row for row in plan.table.rows if row.name in reports]
    if not measured:
        return {}
    task = plan.config(plan.table.rows[0]).task
    if task == "translation" and name in ("tokenised_bleu", "wer"):
        score = bleu_score if name == "tokenised_bleu" else mean_score
        examples = _translations(plan, reports, measured, name)
    elif task in ("classification", "cloze"):
        score, examples = mean_score, {row.name: _answers(plan, reports, row) for row in measured}
    else:
        score, examples = None, {}
    found = {}
    for row in measured:
        above = plan.table.above(row)
        if above is None or above not in measured:
            continue
        if score is not None:
            p = paired_bootstrap_p(examples[row.name], examples[above.name], score)
            found[row.name] = _shown(p)
        else:
            both = (values(reports, own, MEASURES[name]) for own in (above, row))
            p = welch(*both)
            found[row.name] = "–" if math.isnan(p) else f"{_shown(p)} (t)"
    return found


def _shown(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def _translations(
    plan: Plan, reports: Reports, rows: list[Row], name: str
) -> dict[str, list[Statistics]]:
    """What BLEU or exact match is made of, a sentence each, by row and seed."""
    task = Translation(plan.trained_config(plan.run(rows[0], 0)))
    gold = [texts for _, texts in references(task, "test")]
    gold_words = [[task.scored_words(text) for text in several] for several in gold]

    def statistics(texts: list[str]) -> Statistics:
        if name == "wer":
            return share(exact_matches(texts, gold, task.lowercase))
        return bleu_statistics([task.scored_words(text) for text in texts], gold_words)

    return {
        row.name: [statistics(read_hypotheses(plan.report(row, s))) for s in reports[row.name]]
        for row in rows
    }


def _answers(plan: Plan, reports: Reports, row: Row) -> list[Statistics]:
    """Which examples were right, by seed. A line has ours, its probability and gold."""
    files = [plan.report(row, seed) / "predictions.txt" for seed in reports[row.name]]
    lines = [file.read_text("utf-8").split("\n")[:-1] for file in files]  # U+2028 ends none
    cells = [[line.split("\t") for line in own] for own in lines]
    return [share([ours == gold for ours, _, gold, *_ in own]) for own in cells]


def welch(first: list[float], second: list[float]) -> float:
    """p of their means being the same; NaN where either is of fewer than two."""
    if min(len(first), len(second)) < 2 or np.ptp([*first, *second]) == 0:
        return math.nan
    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)  # pyright: ignore
