"""What tables draw beside their figures, as the papers do: a name each, for Table.figures."""

import shutil
import statistics
from collections.abc import Callable

from evaluation.pictures import joined, levels_and_curves
from papers.measures import MEASURES
from papers.plan import Plan
from papers.scoring import Reports
from papers.significance import values


def lengths(plan: Plan, reports: Reports) -> str:
    """BLEU by source length (Bahdanau 2015, Figure 2; Luong 2015, Figure 6)."""
    drawn = {}
    for name, own in reports.items():
        several = [report["curves"]["source length"] for report in own.values()]
        parts = [f"{part['label']}\n{part['sentences']}" for part in several[0]]
        means = [
            statistics.mean(curve[i]["scores"]["tokenised_bleu"] for curve in several)
            for i in range(len(parts))
        ]
        drawn[name] = parts, means
    across = "source length in tokens, and how many sentences there are of it"
    joined(drawn, across, "tokenised BLEU", plan.own / "lengths.png")
    return "![tokenised BLEU by source length](lengths.png)\n"


def heat_maps(plan: Plan, reports: Reports) -> str:
    """What the first seed's models look at in the first test sentence."""
    text = ""
    for number, row in enumerate(plan.table.rows):
        found = plan.report(row, 0) / "attention-0.png"
        if row.name in reports and found.exists():
            shutil.copy(found, plan.own / f"attention-{number}.png")
            text += f"![{row.name}](attention-{number}.png)\n*{row.name}*\n\n"
    return text


def delays(plan: Plan, reports: Reports) -> str:
    """Error by delay, with the other networks as levels (Schuster 1997, Figures 4 and 5)."""
    measure = MEASURES[plan.table.measures[0]]
    drawn: dict[str, tuple[list[float], list[list[float]]]] = {}
    levels: dict[str, list[float]] = {}
    for row in plan.table.rows:
        own = values(reports, row, measure)
        network, _, delay = row.name.partition(", delay ")
        if not own:
            continue
        if delay.isdecimal():
            places, found = drawn.setdefault(network, ([], []))
            places.append(float(delay))
            found.append(own)
        else:
            levels[row.name] = own
    levels_and_curves(drawn, levels, "delay, steps", measure.name, plan.own / "delays.png")
    return f"![{measure.name} by delay](delays.png)\n"


FIGURES: dict[str, Callable[[Plan, Reports], str]] = {
    "lengths": lengths,
    "heat_maps": heat_maps,
    "delays": delays,
}
