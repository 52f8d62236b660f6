"""Write the page of a comparison at equal budgets: summary, plots, results, tuning and costs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.ticker import EngFormatter, LogLocator

from evaluation.canvas import canvas
from markup import code, escape, table
from papers.frontier import (
    EVALUATIONS,
    TOLERANCE,
    WARMUP,
    Cost,
    Frontier,
    Setting,
    budget_amount,
    budget_epochs,
    budget_steps,
    choose,
    run_row,
    settings,
)
from papers.measures import MEASURES
from papers.page import mean_and_deviation
from papers.pareto import COST_AXES, BudgetResult, Panel, at_budget, make_panel, quantity, summary
from papers.plan import Facts, Plan, facts
from papers.scoring import Reports
from papers.significance import values
from training.workdir import is_done
from writing import write_json, write_text

Tuning = Mapping[str, Mapping[Setting, float]]  # validation scores by architecture and setting
_LABELS = {
    "tokens": "target tokens in training",
    "operations": "operations in training (FLOP)",
    "seconds": "device time of the training steps (s)",
    "parameters": "parameters (best result of each architecture)",
}
_MARKERS = "osD^v<>PX*"


def write_frontier_page(
    frontier: Frontier, plan: Plan, costs: Mapping[str, Cost], tuning: Tuning, reports: Reports,
    command: str,
) -> Path:  # fmt: skip
    """Write page.md, its plots and results.json; return the path of page.md.

    `plan` is that of the architectures, and `reports` are those of the runs of all budgets.
    """
    outcomes = make_outcomes(frontier, plan, costs, tuning, reports)
    runs = _run_facts(plan, tuning, outcomes)
    plan.page_folder.mkdir(parents=True, exist_ok=True)
    measure = MEASURES[plan.table.measures[0]].name
    parts = [
        f"# {escape(plan.table.title)}", _provenance(plan, costs, runs, command),
        "## Summary", f"Results are {measure} on the test split, means over seeds.",
        "\n".join(f"- {escape(text)}" for text in summary(frontier, costs, outcomes)),
    ]  # fmt: skip
    if outcomes:
        draw_panels({axis: make_panel(outcomes, axis) for axis in COST_AXES}, measure,
                    plan.page_folder / "frontier.png")  # fmt: skip
        parts.append(f"![{measure} against the costs of training](frontier.png)")
        parts.append(
            "Thick gray lines are Pareto fronts: no other run is as cheap and better. Error bars "
            "are standard deviations over seeds."
        )
    parts += [
        "## Results", *(_results(frontier, costs, outcomes, level) for level, _ in
                        enumerate(frontier.lengths)),
        "## Costs", _costs(costs), "## Tuning", _tuning(frontier, plan, tuning),
        "## Method", method(frontier, costs),
    ]  # fmt: skip
    path = plan.page_folder / "page.md"
    write_text(path, "\n\n".join(part.strip() for part in parts if part) + "\n")
    content = _page_content(frontier, plan, costs, tuning, outcomes)
    write_json(plan.page_folder / "results.json", content, indent=1)
    return path


def make_outcomes(
    frontier: Frontier, plan: Plan, costs: Mapping[str, Cost], tuning: Tuning, reports: Reports
) -> list[BudgetResult]:
    """Return the test results of all runs that have reports, in the order of the architectures."""
    measure, found = MEASURES[plan.table.measures[0]], []
    for row in plan.table.rows:
        setting = choose(row.name, tuning[row.name])
        for steps in sorted(set(budget_steps(frontier, costs, row.name).values())):
            scores = values(reports, run_row(row, steps, setting), measure)
            if scores:
                found.append(BudgetResult(row.name, steps, scores, costs[row.name]))
    return found


def _run_facts(plan: Plan, tuning: Tuning, outcomes: Sequence[BudgetResult]) -> list[Facts]:
    """Return the facts of all complete runs of the outcomes."""
    found = []
    for outcome in outcomes:
        setting = choose(outcome.name, tuning[outcome.name])
        row = run_row(plan.table.row(outcome.name), outcome.steps, setting)
        folders = [plan.run_folder(row, seed) for seed in range(plan.seeds)]
        found += [facts(folder) for folder in folders if is_done(folder)]
    return found


def _provenance(plan: Plan, costs: Mapping[str, Cost], runs: Sequence[Facts], command: str) -> str:
    commits = sorted({run.commit[:9] + run.commit[40:] or "unknown" for run in runs})
    trained = ", ".join(sorted({run.device for run in runs}))
    timed = ", ".join(sorted({cost.device for cost in costs.values()}))
    size = f", size={plan.size}" if plan.size else ""
    seeds = f"seeds 0 to {plan.seeds - 1}" if plan.seeds > 1 else "seed 0"
    text = f"{code(command)}\n\nCorpus {escape(plan.data + size)}, {seeds}"
    if runs:
        text += f"; trained at commit {escape(', '.join(commits))} on {escape(trained)}"
    return f"{text}; speed measured on {escape(timed)}."


def draw_panels(panels: Mapping[str, Panel], up: str, path: Path) -> None:
    """Draw one plot per cost, with one curve per architecture and the Pareto front."""
    with canvas(path, (12, 9), dpi=120) as figure:
        grid = figure.subplots(2, 2, sharey=True).flat
        for number, (axes, (axis, panel)) in enumerate(zip(grid, panels.items(), strict=True)):
            for (name, points), marker in zip(panel.curves.items(), _MARKERS, strict=False):
                across, means, deviations = zip(*points, strict=True)
                axes.errorbar(
                    across, means, deviations, label=None if number else name, marker=marker,
                    capsize=2, linewidth=1, markersize=5,
                )  # fmt: skip
            axes.step(
                *zip(*panel.front, strict=True), where="post", color="black", linewidth=2.5,
                alpha=0.4, zorder=0, label=None if number else "Pareto front",
            )  # fmt: skip
            axes.set(xlabel=_LABELS[axis], xscale="log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(EngFormatter())  # such as 5 M; powers would be formulas
            axes.xaxis.set_minor_formatter("")
            axes.set_ylabel("" if number % 2 else up)
            axes.grid(alpha=0.3)
        figure.legend(loc="outside upper center", ncols=5)


def _results(
    frontier: Frontier, costs: Mapping[str, Cost], outcomes: Sequence[BudgetResult], level: int
) -> str:
    """Return the table of one level of all kinds of budgets, with one row per architecture."""
    budgets = [budget for budget in frontier.budgets() if budget.level == level]
    head, cells = ["architecture"], {name: [name] for name in costs}
    for budget in budgets:
        head += [quantity(budget.kind, budget_amount(frontier, costs, budget)), "steps"]
        found = {o.name: o for o in at_budget(frontier, costs, outcomes, budget)}
        for name, line in cells.items():
            scores = found[name].scores if name in found else []
            steps = budget_steps(frontier, costs, name)[budget]
            line += [mean_and_deviation(scores, ".2f"), f"{steps:,}"]
    return table(head, cells.values())


def _costs(costs: Mapping[str, Cost]) -> str:
    head = ["architecture", "parameters", "tokens per step", "MFLOP per token", "ms per step",
            "tokens per second"]  # fmt: skip
    lines = [
        [
            name, f"{c.parameters:,}", f"{c.tokens:,.0f}", f"{c.operations / c.tokens / 1e6:.1f}",
            f"{1000 * c.seconds:.2f}", f"{c.tokens / c.seconds:,.0f}",
        ]
        for name, c in costs.items()
    ]  # fmt: skip
    return table(head, lines)


def _tuning(frontier: Frontier, plan: Plan, tuning: Tuning) -> str:
    head = ["architecture", "metric", "learning rate", "dropout", "best", "all points"]
    lines = []
    for row in plan.table.rows:
        scores, points = tuning[row.name], settings(frontier, plan, row)
        best = choose(row.name, scores)
        texts = [f"{p.rate:g}, {p.dropout:g}: {_score(scores.get(p))}" for p in points]
        lines.append([
            row.name, plan.config(row).train.eval_metric, f"{best.rate:g}", f"{best.dropout:g}",
            _score(scores[best]), "; ".join(texts),
        ])  # fmt: skip
    return table(head, lines, words=2, remarks=1)


def _score(score: float | None) -> str:
    return "failed" if score is None else f"{score:.2f}"


def method(frontier: Frontier, costs: Mapping[str, Cost]) -> str:
    """Return the paragraph that explains budgets, tuning and costs."""
    levels = range(len(frontier.lengths))
    epochs = [f"{budget_epochs(frontier, costs, level):.3g}" for level in levels]
    points = len(frontier.rates) * len(frontier.dropouts)
    return (
        f"Budgets are the target tokens, the operations and the device time of "
        f"{escape(frontier.reference)} in {', '.join(epochs)} epochs. The budget determines the "
        f"number of training steps. Numbers of steps of one architecture that differ by at most "
        f"{100 * TOLERANCE:g} % share their runs, so operations and device time are equal up to "
        f"this share. Every architecture is tuned with {points} points (learning rate and dropout) "
        f"at {epochs[frontier.tuned_at.level]} epochs, with one seed, by the best "
        "validation score. All runs use a cosine schedule with a warm-up over "
        f"{100 * WARMUP:g} % of the steps, and {EVALUATIONS} evaluations; the best checkpoint on "
        "the validation split is scored with the same beam search. Operations are those of matrix "
        "products, including padding, in forward and backward passes. Device time is the number of "
        "training steps × the time of one step of a run that has the device to itself, without "
        "compilation and evaluation. p-values are those of Welch's t-test over seeds, at the "
        "level of 5 %, without a correction for the number of comparisons."
    )


def _page_content(
    frontier: Frontier, plan: Plan, costs: Mapping[str, Cost], tuning: Tuning,
    outcomes: Sequence[BudgetResult],
) -> dict:  # fmt: skip
    """Return the content of results.json."""
    rows = {}
    for row in plan.table.rows:
        best = choose(row.name, tuning[row.name])
        steps = budget_steps(frontier, costs, row.name)
        rows[row.name] = {
            "cost": costs[row.name]._asdict(),
            "tuning": [{**s._asdict(), "score": x} for s, x in tuning[row.name].items()],
            "tuned": best._asdict(),
            "steps": {f"{kind} {level}": number for (kind, level), number in steps.items()},
            "runs": {
                str(number): plan.run_name(run_row(row, number, best))
                for number in sorted(set(steps.values()))
            },
            "measured": {str(o.steps): o.scores for o in outcomes if o.name == row.name},
        }
    return {
        "target": plan.target, "data": plan.data, "size": plan.size, "lengths": frontier.lengths,
        "reference": frontier.reference, "measure": plan.table.measures[0], "rows": rows,
        "summary": summary(frontier, costs, outcomes),
    }  # fmt: skip
