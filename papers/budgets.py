"""Compare architectures at equal budgets, which are read off the learning curves of their runs.

The rows of the table are runs of several architectures, each with the same number of learning
rates. No schedule depends on the length of a run, so a run that is stopped early is a run with a
smaller budget, and one learning curve has the results of all budgets. The budgets are shares of the
tokens, operations and device time of the first architecture's runs.
"""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from configs.base import LOWER_IS_BETTER
from evaluation.bootstrap import welch
from papers.plan import Plan
from papers.table import Row
from reading import read_json
from training.records import Entry, operations, read_complete_log

BUDGET_KINDS = ("tokens", "operations", "seconds")
BUDGET_SHARES = (0.25, 0.5, 1.0)  # the budgets, as shares of the first architecture's runs
SIGNIFICANT = 0.05  # differences with a larger p-value are not significant
TOLERANCE = 0.02  # relative distance up to which a budget before or after all evaluations counts


class Evaluated(NamedTuple):
    """The cost of a run up to an evaluation, and the best validation score so far."""

    tokens: float  # target tokens
    operations: float  # floating-point operations of matrix products
    seconds: float  # device time of the training steps
    score: float


class Runs(NamedTuple):
    """The learning curves of one row."""

    row: str
    architecture: str
    parameters: int
    curves: list[list[Evaluated]]  # one per seed


class Budget(NamedTuple):
    """One of the budgets at which all architectures are compared."""

    kind: str  # one of BUDGET_KINDS
    amount: float


class BudgetResult(NamedTuple):
    """The results of an architecture at one budget, with its best learning rate."""

    architecture: str
    row: str  # the row whose mean score is the best of the architecture
    scores: list[float]  # one per seed

    @property
    def mean(self) -> float:
        """The mean score over seeds."""
        return statistics.mean(self.scores)


class Ranking(NamedTuple):
    """The results of all architectures at one budget."""

    budget: Budget
    best: BudgetResult
    ties: list[BudgetResult]  # others that are not significantly worse, from best to worst
    worse: list[BudgetResult]  # all others, from best to worst
    missing: list[str]  # architectures without a result at this budget

    def of(self, architecture: str) -> BudgetResult | None:
        """Return the result of an architecture, or None if it is missing."""
        found = [self.best, *self.ties, *self.worse]
        return next((result for result in found if result.architecture == architecture), None)


def architecture_of(row: Row) -> str:
    """Return the name of the architecture of a row."""
    return row.name.rpartition(", rate ")[0]


def learning_curve(lines: Sequence[Entry], metric: str, step_seconds: float) -> list[Evaluated]:
    """Return the evaluations in a log; lines of training steps precede the evaluation.

    An evaluation without a score, as after a divergence, does not improve the best score.
    """
    curve: list[Evaluated] = []
    best, tokens = 0.0, 0.0
    for index, line in enumerate(lines):
        tokens = line.get("count", tokens)
        if line["kind"] == "valid":
            best = max(best, line.get(metric) or 0.0)
            flops = 1e12 * (operations(lines[:index]) or 0.0)
            curve.append(Evaluated(tokens, flops, line["step"] * step_seconds, best))
    return curve


def complete_rows(plan: Plan) -> list[Row]:
    """Return the rows that are kept or have at least one complete run."""
    rows = plan.table.rows
    return [row for row in rows if row.name in plan.kept or _complete_folders(plan, row)]


def _complete_folders(plan: Plan, row: Row) -> list[Path]:
    from training.workdir import is_done

    folders = (Path(plan.run_folder(row, seed)) for seed in range(plan.seeds_of(row)))
    return [folder for folder in folders if is_done(folder)]


def read_runs(plan: Plan, speeds: Mapping[str, float]) -> list[Runs]:
    """Read the learning curves of all rows with complete runs; `speeds` are seconds per step."""
    found, kept = [], _kept_runs(plan)
    for row in complete_rows(plan):
        if row.name in kept:
            found.append(kept[row.name])
            continue
        metric, name = plan.config(row).train.eval_metric, architecture_of(row)
        if metric in LOWER_IS_BETTER:
            raise ValueError(f"budgets need a metric of which higher values are better: {metric}")
        logs = [read_complete_log(f / "log.jsonl") for f in _complete_folders(plan, row)]
        curves = [learning_curve(lines, metric, speeds[name]) for lines in logs]
        parameters = next(line["parameters"] for line in logs[0] if "parameters" in line)
        found.append(Runs(row.name, name, parameters, curves))
    return found


def _kept_runs(plan: Plan) -> dict[str, Runs]:
    """Map kept rows to their learning curves in budgets.json of the committed page."""
    found = {}
    for folder in {row.folder for row in plan.kept.values()}:
        runs = read_json(folder / "budgets.json", {"runs": {str: dict}}, "leave --keep out")["runs"]
        for name in plan.kept:
            run = runs[name]
            curves = [[Evaluated(**point) for point in curve] for curve in run["curves"]]
            found[name] = Runs(name, run["architecture"], run["parameters"], curves)
    return found


def score_at(curve: Sequence[Evaluated], kind: str, amount: float) -> float | None:
    """Return the score of a curve at a budget, interpolated linearly between evaluations.

    Return None if the budget is before the first evaluation, or after the end of the run.
    """
    first, last = curve[0], curve[-1]
    if amount < (1 - TOLERANCE) * getattr(first, kind):
        return None
    for before, after in itertools.pairwise([first, *curve]):
        low, high = getattr(before, kind), getattr(after, kind)
        if amount <= high:
            share = (amount - low) / (high - low) if amount > low else 0.0
            return before.score + share * (after.score - before.score)
    return last.score if amount <= (1 + TOLERANCE) * getattr(last, kind) else None


def find_budgets(runs: Sequence[Runs], reference: str) -> Iterator[Budget]:
    """Yield all budgets, those of tokens first; `reference` is the architecture that defines them.

    There are no budgets without runs of this architecture.
    """
    first = next((run for run in runs if run.architecture == reference), None)
    if first is None:
        return
    end = [curve[-1] for curve in first.curves]
    for kind in BUDGET_KINDS:
        whole = statistics.mean(getattr(evaluated, kind) for evaluated in end)
        yield from (Budget(kind, share * whole) for share in BUDGET_SHARES)


def rank(runs: Sequence[Runs], budget: Budget) -> Ranking | None:
    """Return the ranking at one budget; None if no run reaches it."""
    found: dict[str, list[BudgetResult]] = {run.architecture: [] for run in runs}
    for run in runs:
        scores = [score_at(curve, *budget) for curve in run.curves]
        known = [score for score in scores if score is not None]
        if len(known) == len(scores):
            found[run.architecture].append(BudgetResult(run.architecture, run.row, known))
    tuned = [max(results, key=lambda result: result.mean) for results in found.values() if results]
    if not tuned:
        return None
    best, *others = sorted(tuned, key=lambda result: -result.mean)
    # The p-value is NaN with one seed, and then no difference is significant.
    worse = [other for other in others if welch(best.scores, other.scores) <= SIGNIFICANT]
    ties = [other for other in others if other not in worse]
    return Ranking(budget, best, ties, worse, [name for name, results in found.items()
                                               if not results])  # fmt: skip


def rate_of(row: str) -> float:
    """Return the learning rate in the name of a row."""
    return float(row.rpartition(", rate ")[2])


def best_rates(runs: Sequence[Runs]) -> dict[str, float]:
    """Map architectures to the learning rate with the best final score."""
    scores: dict[str, dict[float, float]] = {}
    for run in runs:
        final = statistics.mean(curve[-1].score for curve in run.curves)
        scores.setdefault(run.architecture, {})[rate_of(run.row)] = final
    return {name: max(of, key=of.__getitem__) for name, of in scores.items()}


def outer_rates(runs: Sequence[Runs], rankings: Sequence[Ranking]) -> dict[str, int]:
    """Count by architecture the budgets at which its best rate is the smallest or largest tried."""
    tried: dict[str, list[float]] = {}
    for run in runs:
        tried.setdefault(run.architecture, []).append(rate_of(run.row))
    outer = {name: {min(rates), max(rates)} for name, rates in tried.items()}
    found = {name: [ranking.of(name) for ranking in rankings] for name in tried}
    return {
        name: sum(result is not None and rate_of(result.row) in outer[name] for result in results)
        for name, results in found.items()
    }


def mean_curves(runs: Sequence[Runs]) -> dict[str, list[Evaluated]]:
    """Map architectures to the mean curve over seeds, with the best learning rate at each point."""
    found: dict[str, list[Evaluated]] = {}
    for run in runs:
        means = [
            Evaluated(*map(statistics.mean, zip(*several, strict=True)))
            for several in zip(*run.curves, strict=True)
        ]
        known = found.setdefault(run.architecture, means)
        found[run.architecture] = [
            max(pair, key=lambda e: e.score) for pair in zip(known, means, strict=True)
        ]
    return found


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (cost, score) that no other point surpasses, by increasing cost."""
    front: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or score > front[-1][1]:
            front.append((cost, score))
    return front
