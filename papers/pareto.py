"""Compare the results of architectures at equal budgets: winners, Pareto fronts, and sentences."""

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evaluation.bootstrap import welch
from papers.frontier import BUDGET_KINDS, Budget, Cost, Frontier, budget_amount, budget_steps
from sweeping.estimate import duration

SIGNIFICANT = 0.05  # differences with a larger p-value are not significant
COST_AXES = (*BUDGET_KINDS, "parameters")


class BudgetResult(NamedTuple):
    """The test results of an architecture that was trained for a number of steps."""

    name: str  # of the architecture
    steps: int
    scores: list[float]  # one per seed; at least one
    cost: Cost

    @property
    def mean(self) -> float:
        """The mean score over seeds."""
        return statistics.mean(self.scores)

    def at(self, axis: str) -> float:
        """Return the cost of one training run on one of COST_AXES."""
        return self.cost.of(axis, self.steps)


class Panel(NamedTuple):
    """The data of one plot: quality as a function of a cost."""

    curves: dict[str, list[tuple[float, float, float]]]  # cost, mean and deviation, by architecture
    front: list[tuple[float, float]]  # cost and mean of the Pareto front, by increasing cost


class Winner(NamedTuple):
    """The best architecture at one budget."""

    budget: Budget
    best: BudgetResult
    ties: list[BudgetResult]  # others that are not significantly worse, from best to worst
    worse: list[BudgetResult]  # all others, from best to worst
    missing: list[str]  # names of the architectures without results

    @property
    def clear(self) -> bool:
        """Whether the architecture is significantly better than all others."""
        return not (self.ties or self.missing)


def pareto_front(outcomes: Sequence[BudgetResult], axis: str) -> list[BudgetResult]:
    """Return the outcomes that no other one surpasses: as cheap and better, or cheaper and as good.

    They are sorted by cost. Of outcomes with equal cost and quality, the first one is kept.
    """
    front: list[BudgetResult] = []
    for outcome in sorted(outcomes, key=lambda o: (o.at(axis), -o.mean)):
        if not front or outcome.mean > front[-1].mean:
            front.append(outcome)
    return front


def make_panel(outcomes: Sequence[BudgetResult], axis: str) -> Panel:
    """Return the data of the plot of quality against one cost.

    All runs of an architecture have the same parameters, so that plot has its best result only.
    """
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for outcome in outcomes:
        deviation = statistics.stdev(outcome.scores) if len(outcome.scores) > 1 else 0.0
        curves.setdefault(outcome.name, []).append((outcome.at(axis), outcome.mean, deviation))
    # The last point of a sorted curve is the best one if all costs are equal.
    first = -1 if axis == "parameters" else 0
    curves = {name: sorted(points)[first:] for name, points in curves.items()}
    front = [(outcome.at(axis), outcome.mean) for outcome in pareto_front(outcomes, axis)]
    return Panel(curves, front)


def at_budget(
    frontier: Frontier, costs: Mapping[str, Cost], outcomes: Sequence[BudgetResult], budget: Budget
) -> list[BudgetResult]:
    """Return the outcomes of all architectures at one budget, from best to worst."""
    steps = {name: budget_steps(frontier, costs, name)[budget] for name in costs}
    found = [outcome for outcome in outcomes if steps[outcome.name] == outcome.steps]
    return sorted(found, key=lambda outcome: -outcome.mean)


def find_winners(
    frontier: Frontier, costs: Mapping[str, Cost], outcomes: Sequence[BudgetResult]
) -> list[Winner]:
    """Return the best architecture at every budget at which two or more have results."""
    winners = []
    for budget in frontier.budgets():
        found = at_budget(frontier, costs, outcomes, budget)
        if len(found) < 2:
            continue
        best, *others = found
        # The p-value is NaN with one seed, and then no difference is significant.
        worse = [o for o in others if welch(best.scores, o.scores) <= SIGNIFICANT]
        ties = [o for o in others if o not in worse]
        missing = [name for name in costs if name not in {o.name for o in found}]
        winners.append(Winner(budget, best, ties, worse, missing))
    return winners


def quantity(axis: str, value: float) -> str:
    """Format a cost with its unit, for example as 4.1 M tokens, 394 TFLOP or 120 s."""
    if axis == "seconds":
        return f"{value:.3g} s" if value < 1000 else duration(value)
    units = {
        "tokens": ("tokens", "k tokens", "M tokens", "G tokens"),
        "operations": ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"),
        "parameters": ("parameters", "k parameters", "M parameters", "G parameters"),
    }[axis]
    power = max(0, min(len(units) - 1, (len(f"{value:.0f}") - 1) // 3))
    return f"{value / 1000**power:.3g} {units[power]}"


def summary(
    frontier: Frontier, costs: Mapping[str, Cost], outcomes: Sequence[BudgetResult]
) -> list[str]:
    """Return sentences that say which architecture is the best at which budget."""
    winners = find_winners(frontier, costs, outcomes)
    if not winners:
        return []
    wins = collections.Counter(winner.best.name for winner in winners)
    (first, most), *others = wins.most_common()
    counted = [f"{first} at {most} of {len(winners)} budgets"]
    counted += [f"{name} at {number}" for name, number in others]
    clear = sum(winner.clear for winner in winners)
    sentences = [
        f"Best architecture: {', '.join(counted)}. It is significantly better than all others at "
        f"{clear} budgets."
    ]
    for winner in winners:
        amount = quantity(winner.budget.kind, budget_amount(frontier, costs, winner.budget))
        best = winner.best
        text = f"With {amount} each, {best.name} is best with {best.mean:.2f}"
        if winner.ties:
            text += f"; not significantly worse: {_listed(winner.ties)}"
        elif winner.clear:
            text += f", significantly better than all others; second is {_listed(winner.worse[:1])}"
        if winner.missing:
            text += f"; no results: {', '.join(winner.missing)}"
        sentences.append(f"{text}.")
    return [*sentences, *(_front_sentence(outcomes, axis) for axis in COST_AXES)]


def _listed(outcomes: Sequence[BudgetResult]) -> str:
    return ", ".join(f"{outcome.name} ({outcome.mean:.2f})" for outcome in outcomes)


def _front_sentence(outcomes: Sequence[BudgetResult], axis: str) -> str:
    """Name the architectures on the Pareto front of one cost, with their best results on it."""
    best = {outcome.name: outcome for outcome in pareto_front(outcomes, axis)}  # the last of each
    texts = [f"{o.name} ({o.mean:.2f} with {quantity(axis, o.at(axis))})" for o in best.values()]
    return f"Architectures on the Pareto front by {axis}: {', '.join(texts)}."
