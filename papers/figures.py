"""What tables draw beside their figures, as the papers do: a name each, for Table.figures."""

import shutil
import statistics
from collections.abc import Callable, Mapping

from evaluation.curves import Part
from evaluation.pictures import joined, levels_and_curves
from papers.measures import MEASURES, Report
from papers.plan import Plan
from papers.scoring import Reports
from papers.significance import values

FEWEST = 10  # sentences that have a BLEU worth drawing


def mean_curve(own: Mapping[int, Report]) -> list[Part]:
    """A row's BLEU by source length, over seeds, but for lengths that hardly a sentence has."""
    curves = [[Part(**part) for part in r["curves"]["source length"]] for r in own.values()]
    parts = []
    for several in zip(*curves, strict=True):
        bleu = statistics.mean(part.scores["tokenised_bleu"] for part in several)
        parts.append(several[0]._replace(scores={"tokenised_bleu": bleu}))
    return [part for part in parts if part.sentences >= FEWEST]


def lengths(plan: Plan, reports: Reports) -> str:
    """BLEU by source length (Bahdanau 2015, Figure 2; Luong 2015, Figure 6)."""
    drawn = {}
    for name, own in reports.items():
        parts = mean_curve(own)
        labels = [f"{part.label}\n{part.sentences}" for part in parts]
        drawn[name] = labels, [part.scores["tokenised_bleu"] for part in parts]
    across = f"source length in tokens; below, the number of sentences, where {FEWEST} or more"
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
