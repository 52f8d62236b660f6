"""Whether a row differs from the one above by more than chance.

By the paired bootstrap over examples where each has a result of its own: of BLEU and exact match
for every seed, and the median of the p-values is told; of right answers for the mean of the seeds.
Else by Welch's t-test over seeds, which needs several, and is weak with few.
"""

import math
import statistics

import numpy as np
from scipy import stats

from evaluation.scores import bootstrap_means, exact_matches, paired_bootstrap
from evaluation.translation import references
from evaluation.translation_report import read_hypotheses
from papers.measures import MEASURES, Measure
from papers.plan import Plan
from papers.scoring import Reports
from papers.table import Row
from tasks.translation import Translation


def significance(plan: Plan, reports: Reports, row: Row) -> str:
    """p of the difference to the row above, by the table's first measure, for people."""
    above, name = plan.table.above(row), plan.table.measures[0]
    if above is None or row.name not in reports or above.name not in reports:
        return "–"
    if name in ("tokenised_bleu", "bleu", "wer"):
        return _shown(_translations(plan, reports, row, above, name))
    if name in ("accuracy", "error"):
        ours, theirs = _right(plan, reports, row), _right(plan, reports, above)
        return _shown(bootstrap_means(ours, theirs))
    measure = MEASURES[name]
    p = welch(values(reports, above, measure), values(reports, row, measure))
    return "–" if math.isnan(p) else f"{_shown(p)} (t)"


def _shown(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def _translations(plan: Plan, reports: Reports, row: Row, above: Row, name: str) -> float:
    """The median over seeds; an ensemble is compared with the first of the row above."""
    seeds = reports[row.name].keys() & reports[above.name].keys()
    task = Translation(plan.trained_config(plan.run(row, min(seeds))))
    gold = [texts for _, texts in references(task, "test")]
    found = []
    for seed in seeds:
        theirs, ours = (read_hypotheses(plan.report(own, seed)) for own in (above, row))
        if name == "wer":
            right = exact_matches(ours, gold, task.lowercase)
            found.append(bootstrap_means(right, exact_matches(theirs, gold, task.lowercase)))
        else:
            systems: dict[str, list[str]] = {"above": theirs, "row": ours}
            compared = paired_bootstrap(systems, gold, task.lowercase, metrics=["bleu"])
            found.append(compared["BLEU"]["row"]["p"])
    return statistics.median(found)


def _right(plan: Plan, reports: Reports, row: Row) -> np.ndarray:
    """How many of the seeds had each example right, as a share."""
    files = [plan.report(row, seed) / "predictions.txt" for seed in reports[row.name]]
    lines = [file.read_text("utf-8").splitlines() for file in files]
    cells = [[line.split("\t") for line in own] for own in lines]  # ours, its p, gold
    return np.mean([[ours == gold for ours, _, gold, *_ in own] for own in cells], axis=0)


def values(reports: Reports, row: Row, measure: Measure) -> list[float]:
    """What was measured for a row, a seed each."""
    found = (measure.of(report) for report in reports.get(row.name, {}).values())
    return [value for value in found if value is not None]


def welch(first: list[float], second: list[float]) -> float:
    """p of their means being the same; NaN where either is of fewer than two."""
    if min(len(first), len(second)) < 2:
        return math.nan
    return float(stats.ttest_ind(first, second, equal_var=False).pvalue)  # pyright: ignore
