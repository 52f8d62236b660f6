"""Test whether a row of a table differs significantly from the row above it.

Scores with example statistics, such as BLEU and accuracy, are compared with the paired bootstrap
over test examples, for the mean score over seeds. All other results are compared with Welch's
t-test over seeds, which needs at least two seeds and has little power with few seeds.
"""

import math

import numpy as np

from evaluation.bootstrap import (
    EXAMPLE_SCORES,
    ExampleStatistics,
    format_p,
    paired_bootstrap_p,
    welch,
)
from evaluation.examples import read_examples
from papers.measures import MEASURES, Measure
from papers.plan import Plan
from papers.scoring import SCORE_AGAIN, Reports
from papers.table import Row


def values(reports: Reports, row: Row, measure: Measure) -> list[float]:
    """Return the values of a measure for one row, one value per seed."""
    found = (measure.of(report) for report in reports.get(row.name, {}).values())
    return [value for value in found if value is not None]


def significance(plan: Plan, reports: Reports) -> dict[str, str]:
    """Map row names to the formatted p-value of the row's difference from the row above.

    Rows are compared by the first measure of the table. A row is left out if there is no row above
    it, or if this row or the row above has no results. Predictions, which the bootstrap needs, are
    not kept: the p-value of two kept rows is kept, and a kept and a new row are not compared.
    """
    measure = MEASURES[plan.table.measures[0]]
    measured = [row for row in plan.table.rows if row.name in reports]
    new = [row for row in measured if row.name not in plan.kept]
    score = EXAMPLE_SCORES.get(measure.path[-1]) if measure.path[0] == "scores" else None
    examples = {}
    if score is not None:
        examples = {row.name: _statistics(plan, reports, row, measure.path[-1]) for row in new}
        if not all(examples.values()):
            score = None
    found = {}
    for row in measured:
        above = plan.table.above(row)
        if above is None or above not in measured:
            continue
        if score is None:
            p = welch(*(values(reports, r, measure) for r in (above, row)))
            found[row.name] = "–" if math.isnan(p) else f"{format_p(p)} (t)"
        elif row in new and above in new:
            p = paired_bootstrap_p(examples[row.name], examples[above.name], score.score)
            found[row.name] = format_p(p)
        elif plan.is_kept(row) and plan.is_kept(above):
            found[row.name] = _kept_p(plan, row, above) or "–"
        else:
            found[row.name] = "–"
    return found


def _kept_p(plan: Plan, row: Row, above: Row) -> str | None:
    """Return the p-value of two kept rows if they were compared on the committed page."""
    pair = [plan.kept[r.name] for r in (above, row)]
    first = next(iter(pair[1].content["measured"]))
    adjacent = pair[1].number == pair[0].number + 1
    return pair[1].content["p"] if adjacent and first == plan.table.measures[0] else None


def _statistics(plan: Plan, reports: Reports, row: Row, key: str) -> list[ExampleStatistics]:
    """Return the statistics of a score for all test examples, one array per seed.

    The list is empty if the examples have no such statistics, such as the teacher-forced accuracy
    of translations.
    """
    found = [read_examples(plan.report_folder(row, n), SCORE_AGAIN) for n in reports[row.name]]
    if not all(key in example.statistics for examples in found for example in examples):
        return []
    return [np.array([example.statistics[key] for example in examples]) for examples in found]
