"""Draw the plots below a results table, as in the papers; FIGURES maps plot names to functions."""

import shutil
import statistics
from collections.abc import Callable, Mapping

from evaluation.curves import Part
from evaluation.pictures import joined, levels_and_curves
from markup import escape
from papers.budgets_section import budgets_section
from papers.measures import MEASURES, Report
from papers.plan import Plan
from papers.scoring import Reports
from papers.significance import values

MIN_SENTENCES = 10  # bins of source length with fewer test sentences are not drawn


def mean_curve(by_seed: Mapping[int, Report]) -> list[Part]:
    """Return BLEU by source length for one row of a table, averaged over seeds.

    Length bins with fewer than MIN_SENTENCES sentences are left out.
    """
    curves = [[Part(**part) for part in r["curves"]["source length"]] for r in by_seed.values()]
    bins = []
    for several in zip(*curves, strict=True):
        bleu = statistics.mean(part.scores["tokenized_bleu"] for part in several)
        bins.append(several[0]._replace(scores={"tokenized_bleu": bleu}))
    return [part for part in bins if part.sentences >= MIN_SENTENCES]


def bleu_by_length(plan: Plan, reports: Reports) -> str:
    """Plot BLEU by source length (Bahdanau 2015, Figure 2; Luong 2015, Figure 6)."""
    drawn = {}
    for name, by_seed in reports.items():
        parts = mean_curve(by_seed)
        labels = [f"{part.label}\n{part.sentences}" for part in parts]
        drawn[name] = labels, [part.scores["tokenized_bleu"] for part in parts]
    across = f"source length in tokens (second line: number of sentences, at least {MIN_SENTENCES})"
    joined(drawn, across, "tokenized BLEU", plan.page_folder / "lengths.png")
    return "![tokenized BLEU by source length](lengths.png)\n"


def attention_maps(plan: Plan, reports: Reports) -> str:
    """Show heat maps of the attention of every row's first seed on the first test example."""
    text = ""
    for number, row in enumerate(plan.table.rows):
        if row.name in plan.kept:
            kept = plan.kept[row.name]
            found = kept.folder / f"attention-{kept.number}.png"
        else:
            found = plan.report_folder(row, 0) / "attention-0.png"
        if row.name in reports and found.exists():
            shutil.copy(found, plan.page_folder / f"attention-{number}.png")
            name = escape(row.name)
            text += f"![{name}](attention-{number}.png)\n*{name}*\n\n"
    return text


def error_by_delay(plan: Plan, reports: Reports) -> str:
    """Plot the error as a function of the delay (Schuster 1997, Figures 4 and 5).

    Rows that do not belong to one delay, such as merged networks, are drawn as horizontal lines.
    """
    measure = MEASURES[plan.table.measures[0]]
    drawn: dict[str, tuple[list[float], list[list[float]]]] = {}
    levels: dict[str, list[float]] = {}
    for row in plan.table.rows:
        measured = values(reports, row, measure)
        network, _, delay = row.name.partition(", delay ")
        if not measured:
            continue
        if delay.isdecimal():
            delays, found = drawn.setdefault(network, ([], []))
            delays.append(float(delay))
            found.append(measured)
        else:
            levels[row.name] = measured
    path = plan.page_folder / "delays.png"
    levels_and_curves(drawn, levels, "delay in time steps", measure.name, path)
    return f"![{measure.name} by delay](delays.png)\n"


FIGURES: dict[str, Callable[[Plan, Reports], str]] = {
    "lengths": bleu_by_length,
    "heat_maps": attention_maps,
    "delays": error_by_delay,
    "budgets": lambda plan, reports: budgets_section(plan),
}
