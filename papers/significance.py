"""Whether a row differs from the one above by more than chance.

By the paired bootstrap where every example has a score of its own: of BLEU and exact match for each
seed, where the median of the p-values is told; of right answers over the mean of the seeds. Else
Welch's t-test over seeds, which needs several, and is weak with few.
"""

import math
import statistics

import numpy as np
from scipy import stats

from evaluation.scores import bootstrap_means
from papers.measures import MEASURES, Measure
from papers.plan import Plan
from papers.scoring import Reports
from papers.table import Row

_COMPARED = {"tokenised_bleu": "BLEU", "bleu": "BLEU", "wer": "exact"}  # by the report itself


def significance(plan: Plan, reports: Reports, row: Row) -> str:
    """p of the difference to the row above, by the table's first measure, for people."""
    above, name = plan.table.above(row), plan.table.measures[0]
    if above is None or row.name not in reports or above.name not in reports:
        return "–"
    own = reports[row.name].values()
    if name in _COMPARED:
        found = [r["against"][_COMPARED[name]]["ours"]["p"] for r in own if "against" in r]
        return _shown(statistics.median(found)) if found else "–"
    if name in ("accuracy", "error"):
        ours, theirs = _right(plan, reports, row), _right(plan, reports, above)
        return _shown(bootstrap_means(ours, theirs))
    measure = MEASURES[name]
    p = welch(values(reports, above, measure), values(reports, row, measure))
    return "–" if math.isnan(p) else f"{_shown(p)} (t)"


def _shown(p: float) -> str:
    return "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 1 else "1"


def _right(plan: Plan, reports: Reports, row: Row) -> np.ndarray:
    """How many of the seeds had each example right, as a share."""
    files = [plan.scored(row, seed) / "predictions.txt" for seed in reports[row.name]]
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
