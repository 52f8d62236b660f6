"""Test whether a row of a table differs significantly from the row above it.

BLEU, word error rate and accuracy are compared with the paired bootstrap over test examples, for
the mean score over seeds. All other results are compared with Welch's t-test over seeds, which
needs at least two seeds and has little power with few seeds.
"""

import math

from evaluation.bootstrap import (
    ExampleStatistics,
    bleu_score,
    bleu_statistics,
    format_p,
    mean_score,
    mean_statistics,
    paired_bootstrap_p,
    welch,
)
from evaluation.comparison import read_hypotheses
from evaluation.evaluator import references
from evaluation.scores import exact_matches
from papers.measures import MEASURES, Measure
from papers.plan import Plan
from papers.scoring import Reports
from papers.table import Row
from reading import read_lines, reading
from tasks.translation import Translation


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
    name = plan.table.measures[0]
    measured = [row for row in plan.table.rows if row.name in reports]
    new = [row for row in measured if row.name not in plan.kept]
    task = plan.config(plan.table.rows[0]).task
    if task == "translation" and name in ("tokenized_bleu", "exact", "wer"):
        score = bleu_score if name == "tokenized_bleu" else mean_score
        examples = _translations(plan, reports, new, name) if new else {}
    elif task in ("classification", "cloze") and name in ("accuracy", "error"):
        score, examples = mean_score, {row.name: _answers(plan, reports, row) for row in new}
    else:
        score, examples = None, {}
    found = {}
    for row in measured:
        above = plan.table.above(row)
        if above is None or above not in measured:
            continue
        if score is None:
            p = welch(*(values(reports, r, MEASURES[name]) for r in (above, row)))
            found[row.name] = "–" if math.isnan(p) else f"{format_p(p)} (t)"
        elif row in new and above in new:
            p = paired_bootstrap_p(examples[row.name], examples[above.name], score)
            found[row.name] = format_p(p)
        elif row not in new and above not in new:
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


def _translations(
    plan: Plan, reports: Reports, rows: list[Row], name: str
) -> dict[str, list[ExampleStatistics]]:
    """Map row names to the BLEU or exact-match statistics of all sentences, one array per seed."""
    task = Translation(plan.trained_config(rows[0], 0))
    gold = [texts for _, texts in references(task, "test")]
    gold_words = [[task.scored_words(text) for text in several] for several in gold]

    def statistics(texts: list[str]) -> ExampleStatistics:
        if name != "tokenized_bleu":
            return mean_statistics(exact_matches(texts, gold, task.lowercase))
        return bleu_statistics([task.scored_words(text) for text in texts], gold_words)

    return {
        row.name: [
            statistics(read_hypotheses(plan.report_folder(row, s))) for s in reports[row.name]
        ]
        for row in rows
    }


def _answers(plan: Plan, reports: Reports, row: Row) -> list[ExampleStatistics]:
    """Return the accuracy statistics of all test examples, one array per seed.

    Every line of predictions.txt contains the prediction, its probability and the gold answer.
    """
    files = [plan.report_folder(row, seed) / "predictions.txt" for seed in reports[row.name]]
    found = []
    for file in files:
        rows = [line.split("\t") for line in read_lines(file)]
        with reading(file):
            found.append(mean_statistics([answer == gold for answer, _, gold, *_ in rows]))
    return found
