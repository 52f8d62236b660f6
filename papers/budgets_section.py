"""The section of a page that compares architectures at equal budgets: summary, plots and tables."""

import collections
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.ticker import EngFormatter, LogLocator

from evaluation.canvas import canvas
from markup import escape, table
from papers.budgets import (
    BUDGET_KINDS,
    BUDGET_SHARES,
    Evaluated,
    Ranking,
    Runs,
    architecture_of,
    best_rates,
    complete_rows,
    find_budgets,
    mean_curves,
    outer_rates,
    pareto_front,
    rank,
    read_runs,
)
from papers.plan import Plan
from papers.speeds import measure_speeds
from sweeping.estimate import duration
from writing import write_json

_LABELS = {
    "tokens": "target tokens in training",
    "operations": "operations in training (FLOP)",
    "seconds": "device time of the training steps (s)",
    "parameters": "parameters (best result of each architecture)",
}
# Colors of Okabe & Ito, which color-blind readers can distinguish.
_COLORS = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#b8a800", "#0072b2", "#d55e00", "#cc79a7",
           "#808080")  # fmt: skip
_MARKERS = "osD^v<>PX"


def budgets_section(plan: Plan) -> str:
    """Return the section, and write its plot and budgets.json to the folder of the page."""
    if not complete_rows(plan):
        return ""
    device, speeds = measure_speeds(plan)
    runs = read_runs(plan, speeds)
    reference = architecture_of(plan.table.rows[0])
    found = [rank(runs, budget) for budget in find_budgets(runs, reference)]
    if not found:
        return (
            f"## Equal budgets\n\nThere is no complete run of {escape(reference)}, which defines "
            "the budgets."
        )
    rankings = [ranking for ranking in found if ranking is not None]
    curves = mean_curves(runs)
    sizes = {run.architecture: run.parameters for run in runs}
    draw_budgets(curves, sizes, plan.page_folder / "budgets.png")
    write_json(plan.page_folder / "budgets.json", _budgets_content(plan, runs, rankings), indent=1)
    parts = [
        "## Equal budgets", _method(plan, device),
        "\n".join(f"- {escape(t)}" for t in summary(rankings)),
        "![BLEU on the validation split against the costs of training](budgets.png)",
        "Thick gray lines are Pareto fronts: no other point is as cheap and better. The curves "
        "begin at the first evaluation.",
        *(_results(kind, rankings, [*curves]) for kind in BUDGET_KINDS),
        _costs(curves, sizes, speeds, runs),
        rates_text(outer_rates(runs, rankings), len(rankings)),
    ]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts)


def quantity(kind: str, value: float) -> str:
    """Format a cost with its unit, for example as 4.1 M tokens, 394 TFLOP or 120 s."""
    if kind == "seconds":
        return f"{value:.3g} s" if value < 1000 else duration(value)
    unit = {"tokens": "tokens", "operations": "FLOP"}[kind]
    power = max(0, min(6, math.floor(math.log10(max(value, 1)) / 3 + 1e-9)))
    prefix = ("", "k", "M", "G", "T", "P", "E")[power]
    space = " " if prefix and kind == "tokens" else ""
    return f"{value / 1000**power:.3g} {prefix}{space}{unit}"


def summary(rankings: Sequence[Ranking]) -> list[str]:
    """Return sentences that say which architecture is the best at which budget."""
    wins = collections.Counter(ranking.best.architecture for ranking in rankings)
    counted = ", ".join(f"{name} at {number}" for name, number in wins.most_common())
    sentences = [f"Best architecture, of {len(rankings)} budgets: {counted}."]
    for ranking in rankings:
        best = ranking.best
        text = f"{quantity(*ranking.budget)}: {best.architecture} ({best.mean:.2f})"
        if ranking.ties:
            near = ", ".join(f"{tie.architecture} ({tie.mean:.2f})" for tie in ranking.ties)
            text += f"; not significantly worse: {near}"
        elif ranking.worse:
            second = ranking.worse[0]
            text += f", significantly better than the second, {second.architecture} "
            text += f"({second.mean:.2f})"
        if ranking.missing:
            text += f"; no result: {', '.join(ranking.missing)}"
        sentences.append(f"{text}.")
    return sentences


def draw_budgets(
    curves: Mapping[str, Sequence[Evaluated]], sizes: Mapping[str, int], path: Path
) -> None:
    """Draw one plot per cost, with one curve per architecture and the Pareto front."""
    with canvas(path, (11, 8.5), dpi=110) as figure:
        grid = figure.subplots(2, 2, sharey=True).flat
        for number, (axes, kind) in enumerate(zip(grid, _LABELS, strict=True)):
            points: list[tuple[float, float]] = []
            styles = zip(itertools.cycle(_COLORS), itertools.cycle(_MARKERS), strict=True)
            for (name, curve), (color, marker) in zip(curves.items(), styles, strict=False):
                drawn = [(getattr(e, kind, sizes[name]), e.score) for e in curve]
                drawn = drawn if kind in BUDGET_KINDS else drawn[-1:]
                points += drawn
                axes.plot(
                    *zip(*drawn, strict=True), label=None if number else name, marker=marker,
                    color=color, linewidth=1.2, markersize=4 if len(drawn) > 1 else 8,
                )  # fmt: skip
            axes.step(
                *zip(*pareto_front(points), strict=True), where="post", color="black", linewidth=5,
                alpha=0.2, zorder=0, label=None if number else "Pareto front",
            )  # fmt: skip
            axes.set(xlabel=_LABELS[kind], xscale="log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(EngFormatter())  # such as 5 M; powers would be formulas
            axes.xaxis.set_minor_formatter("")
            axes.set_ylabel("" if number % 2 else "BLEU, validation split")
            axes.grid(alpha=0.3)
        figure.legend(loc="outside upper center", ncols=5)


def _results(kind: str, rankings: Sequence[Ranking], names: Sequence[str]) -> str:
    """Return the table of the budgets of one kind, with one row per architecture."""
    shown = [ranking for ranking in rankings if ranking.budget.kind == kind]
    lines = []
    for name in names:
        found = [ranking.of(name) for ranking in shown]
        lines.append([name, *("–" if r is None else _mean_text(r.scores) for r in found)])
    return table(["architecture", *(quantity(*ranking.budget) for ranking in shown)], lines)


def _mean_text(scores: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.mean(scores):.2f}{deviation}"


def _costs(
    curves: Mapping[str, Sequence[Evaluated]], sizes: Mapping[str, int],
    speeds: Mapping[str, float], runs: Sequence[Runs],
) -> str:  # fmt: skip
    head = ["architecture", "parameters", "training tokens", "MFLOP per token", "ms per step",
            "tokens per second", "best learning rate"]  # fmt: skip
    lines, rates = [], best_rates(runs)
    for name, curve in curves.items():
        end = curve[-1]
        lines.append([
            name, f"{sizes[name]:,}", f"{end.tokens:,.0f}",
            f"{end.operations / end.tokens / 1e6:.1f}", f"{1000 * speeds[name]:.2f}",
            f"{end.tokens / end.seconds:,.0f}", f"{rates[name]:g}",
        ])  # fmt: skip
    return table(head, lines)


def rates_text(outer: Mapping[str, int], budgets: int) -> str:
    """Say how often the best learning rate is the smallest or the largest one that was tried."""
    text = "The best learning rate is the one with the best result at the end of the runs. "
    if not any(outer.values()):
        return f"{text}At no budget is the best rate the smallest or the largest one."
    counted = "; ".join(f"{name}: {number}" for name, number in outer.items() if number)
    return (
        f"{text}Number of the {budgets} budgets at which the best rate is the smallest or the "
        f"largest one that was tried, so that a rate outside this range may be better: "
        f"{escape(counted)}."
    )


def _method(plan: Plan, device: str) -> str:
    shares = ", ".join(f"{share:g}" for share in BUDGET_SHARES)
    names = [architecture_of(row) for row in plan.table.rows]
    rates = len(names) // len(set(names))
    return (
        f"The budgets are {shares} × the target tokens, the operations and the device time of the "
        f"runs of {escape(names[0])}. Results are means over seeds of the BLEU of greedy decoding "
        "on the validation split: the best evaluation within the budget, interpolated linearly "
        "between evaluations. A dash means that the first evaluation is after the budget, or that "
        "the runs end before it. Every architecture has "
        f"{rates} learning rates, of which the best one at each budget counts. It is chosen on the "
        "same split, so all results are slightly optimistic. The learning rate does not depend on "
        "the length of a run. Operations are those of matrix products, including padding. Device "
        f"time is that of the training steps of a run that has the device ({device}) to itself, "
        "without compilation and evaluation. "
        "Differences are significant if Welch's t-test over seeds has a p-value of at most .05, "
        "without a correction for the number of comparisons."
    )


def _budgets_content(plan: Plan, runs: Sequence[Runs], rankings: Sequence[Ranking]) -> dict:
    """Return the content of budgets.json."""
    return {
        "target": plan.target,
        "runs": {
            run.row: {
                "architecture": run.architecture,
                "parameters": run.parameters,
                "curves": [[evaluated._asdict() for evaluated in curve] for curve in run.curves],
            }
            for run in runs
        },
        "budgets": [
            {
                **ranking.budget._asdict(),
                "results": [
                    result._asdict() for result in (ranking.best, *ranking.ties, *ranking.worse)
                ],
            }
            for ranking in rankings
        ],
    }
