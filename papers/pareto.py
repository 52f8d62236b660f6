"""Compare the results of architectures at equal budgets: winners, Pareto fronts, and sentences."""

import collections
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evaluation.bootstrap import welch
from papers.frontier import KINDS, Budget, Cost, Frontier, budget_amount, budget_steps
from sweeping.estimate import duration

SIGNIFICANT = 0.05  # differences with a larger p-value are not significant
AXES = (*KINDS, "parameters")


class Outcome(NamedTuple):
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
        """Return the cost of one training run on one of AXES."""
        return self.cost.of(axis, self.steps)


class Panel(NamedTuple):
    """The data of one plot: quality as a function of a cost."""

    curves: dict[str, list[tuple[float, float, float]]]  # cost, mean and deviation, by architecture
    front: list[tuple[float, float]]  # cost and mean of the Pareto front, by increasing cost


class Winner(NamedTuple):
    """The best architecture at one budget."""

    budget: Budget
    best: Outcome
    ties: list[Outcome]  # others that are not significantly worse, from best to worst
    worse: list[Outcome]  # all others, from best to worst


def pareto_front(outcomes: Sequence[Outcome], axis: str) -> list[Outcome]:
    """Return the outcomes that no other one surpasses: as cheap and better, or cheaper and as good.

    They are sorted by cost. Of outcomes with equal cost and quality, the first one is kept.
    """
    front: list[Outcome] = []
    for outcome in sorted(outcomes, key=lambda o: (o.at(axis), -o.mean)):
        if not front or outcome.mean > front[-1].mean:
            front.append(outcome)
    return front


def make_panel(outcomes: Sequence[Outcome], axis: str) -> Panel:
    """Return the data of the plot of quality against one cost."""
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for outcome in sorted(outcomes, key=lambda o: o.steps):
        deviation = statistics.stdev(outcome.scores) if len(outcome.scores) > 1 else 0.0
        curves.setdefault(outcome.name, []).append((outcome.at(axis), outcome.mean, deviation))
    front = [(outcome.at(axis), outcome.mean) for outcome in pareto_front(outcomes, axis)]
    return Panel(curves, front)


def at_budget(
    frontier: Frontier, costs: Mapping[str, Cost], outcomes: Sequence[Outcome], budget: Budget
) -> list[Outcome]:
    """Return the outcomes of all architectures at one budget, from best to worst."""
    steps = {name: budget_steps(frontier, costs, name)[budget] for name in costs}
    found = [outcome for outcome in outcomes if steps[outcome.name] == outcome.steps]
    return sorted(found, key=lambda outcome: -outcome.mean)


def find_winners(
    frontier: Frontier, costs: Mapping[str, Cost], outcomes: Sequence[Outcome]
) -> list[Winner]:
    """Return the best architecture at every budget that has results."""
    winners = []
    for budget in frontier.budgets():
        best, *others = at_budget(frontier, costs, outcomes, budget) or [None]
        if best is None:
            continue
        # The p-value is NaN with one seed, and then no difference is significant.
        worse = [o for o in others if welch(best.scores, o.scores) <= SIGNIFICANT]
        winners.append(Winner(budget, best, [o for o in others if o not in worse], worse))
    return winners


def quantity(axis: str, value: float) -> str:
    """Format a cost with its unit, for example as 4.1 M tokens, 0.8 PFLOP or 12 min."""
    if axis == "seconds":
        return duration(value)
    units = {
        "tokens": ("tokens", "k tokens", "M tokens", "G tokens"),
        "operations": ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"),
        "parameters": ("parameters", "k parameters", "M parameters", "G parameters"),
    }[axis]
    power = max(0, min(len(units) - 1, (len(f"{value:.0f}") - 1) // 3))
    return f"{value / 1000**power:.3g} {units[power]}"


def summary(
    frontier: Frontier, costs: Mapping[str, Cost], outcomes: Sequence[Outcome]
) -> list[str]:
    """Return sentences that say which architecture is the best at which budget."""
    winners = find_winners(frontier, costs, outcomes)
    if not winners:
        return []
    wins = collections.Counter(winner.best.name for winner in winners)
    counted = ", ".join(f"{name} at {number}" for name, number in wins.most_common())
    clear = sum(not winner.ties for winner in winners)
    sentences = [
        f"Of {len(winners)} budgets, {counted} {_is_best(len(wins))}; at {clear}, the best "
        "architecture is significantly better than all others."
    ]
    for winner in winners:
        amount = quantity(winner.budget.kind, budget_amount(frontier, costs, winner.budget))
        best = winner.best
        text = f"With {amount} each, {best.name} is best with {best.mean:.2f}"
        if winner.ties:
            text += f"; not significantly worse: {_listed(winner.ties)}"
        elif winner.worse:
            text += f", significantly better than all others; second is {_listed(winner.worse[:1])}"
        sentences.append(f"{text}.")
    return [*sentences, *(_front_sentence(outcomes, axis) for axis in AXES)]


def _is_best(number: int) -> str:
    return "is best" if number == 1 else "are best"


def _listed(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"{outcome.name} ({outcome.mean:.2f})" for outcome in outcomes)


def _front_sentence(outcomes: Sequence[Outcome], axis: str) -> str:
    """Name the architectures on the Pareto front of one cost, with the range of their costs."""
    parts: list[list[Outcome]] = []
    for outcome in pareto_front(outcomes, axis):
        if parts and parts[-1][0].name == outcome.name:
            parts[-1].append(outcome)
        else:
            parts.append([outcome])
    texts = []
    for part in parts:
        ends = list(dict.fromkeys(quantity(axis, o.at(axis)) for o in (part[0], part[-1])))
        texts.append(f"{part[0].name} ({' to '.join(ends)}, up to {part[-1].mean:.2f})")
    return f"Pareto front by {axis}: {', then '.join(texts)}."
