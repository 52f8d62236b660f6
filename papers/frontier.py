"""Compare architectures at equal budgets: which runs to train, and the cost of their training.

A frontier trains every architecture with equal numbers of target tokens, equal numbers of
floating-point operations and equal device time. All three kinds of budget are those of one
reference architecture that is trained for multiples of the length of its recipe. A budget becomes a
number of training steps before a run starts, because the learning rate depends on it. Runs whose
numbers of steps are almost equal are trained once.

Every architecture is tuned with the same number of points, by the validation split, before the runs
of all budgets are trained. All runs are rows of tables, so they are trained, stored and scored like
those of papers.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from errors import UserError
from papers.plan import Plan
from papers.table import Row, Table

BUDGET_KINDS = ("tokens", "operations", "seconds")
TOLERANCE = 0.05  # runs of one architecture whose steps differ by at most this share are one run
EVALUATIONS = 10  # evaluations per run, however long it is
WARMUP = 0.1  # share of the training steps in which the learning rate increases


@dataclasses.dataclass(frozen=True)
class Frontier:
    """A comparison of architectures at equal budgets."""

    table: Table  # its rows are the architectures, with the recipes that are tuned
    reference: str  # name of the row whose cost defines the budgets
    lengths: tuple[float, ...]  # the budgets: multiples of the training steps of the reference
    rates: tuple[float, ...]  # factors of the recipe's learning rate, to tune
    dropouts: tuple[float, ...]  # dropout rates, to tune

    def __post_init__(self) -> None:
        """Check the names and the order of the budgets when the frontier is defined."""
        if self.reference not in [row.name for row in self.table.rows]:
            raise ValueError(f"{self.table.title}: there is no row {self.reference}")
        if list(self.lengths) != sorted(set(self.lengths)):
            raise ValueError(f"{self.table.title}: the lengths must increase")

    def budgets(self) -> Iterator["Budget"]:
        """Yield all budgets, those of tokens first."""
        yield from itertools.starmap(
            Budget, itertools.product(BUDGET_KINDS, range(len(self.lengths)))
        )

    @property
    def tuned_at(self) -> "Budget":
        """The budget at which architectures are tuned: the middle number of tokens."""
        return Budget("tokens", len(self.lengths) // 2)


class Budget(NamedTuple):
    """One of the budgets at which all architectures are compared."""

    kind: str  # one of BUDGET_KINDS
    level: int  # index of a length of the reference


class Cost(NamedTuple):
    """The cost of an architecture: its size, and the cost of one training step."""

    parameters: int
    recipe: int  # training steps of the config
    epoch: int  # training steps per epoch
    tokens: float  # target tokens
    operations: float  # floating-point operations of matrix products
    seconds: float  # on a device that has no other runs
    overhead: float  # seconds to start, compile and evaluate once, per run
    device: str

    def of(self, kind: str, steps: float) -> float:
        """Return the cost of a number of training steps; `kind` may also be "parameters"."""
        value = getattr(self, kind)
        return value if kind == "parameters" else steps * value


class Setting(NamedTuple):
    """A point of the tuning."""

    rate: float  # peak learning rate
    dropout: float


def budget_amount(frontier: Frontier, costs: Mapping[str, Cost], budget: Budget) -> float:
    """Return the size of a budget: a number of tokens, operations or seconds."""
    reference = costs[frontier.reference]
    return reference.of(budget.kind, frontier.lengths[budget.level] * reference.recipe)


def budget_epochs(frontier: Frontier, costs: Mapping[str, Cost], level: int) -> float:
    """Return the number of epochs of a budget of tokens."""
    reference = costs[frontier.reference]
    return frontier.lengths[level] * reference.recipe / reference.epoch


def budget_steps(frontier: Frontier, costs: Mapping[str, Cost], name: str) -> dict[Budget, int]:
    """Map every budget to the number of training steps of an architecture.

    All architectures have the same number of tokens per epoch, so a budget of tokens is a number of
    epochs. The steps of other budgets are replaced by steps of an earlier budget that differ from
    them by at most TOLERANCE.
    """
    cost, found = costs[name], dict[Budget, int]()
    for budget in frontier.budgets():
        if budget.kind == "tokens":
            steps = budget_epochs(frontier, costs, budget.level) * cost.epoch
        else:
            steps = budget_amount(frontier, costs, budget) / cost.of(budget.kind, 1)
            nearest = min(found.values(), key=lambda known: abs(known / steps - 1))
            steps = nearest if abs(nearest / steps - 1) <= TOLERANCE else steps
        found[budget] = max(1, round(steps))
    return found


def settings(frontier: Frontier, plan: Plan, row: Row) -> list[Setting]:
    """Return the points of the tuning of an architecture."""
    rate = plan.config(row).optimizer.learning_rate
    return [
        Setting(float(f"{factor * rate:.6g}"), dropout)
        for factor, dropout in itertools.product(frontier.rates, frontier.dropouts)
    ]


def run_row(row: Row, steps: int, setting: Setting) -> Row:
    """Return the row of an architecture that is trained for a number of steps.

    The schedule of the learning rate, the share of its warm-up and the number of evaluations are
    the same for all architectures and budgets.
    """
    changes = {
        "train.steps": steps,
        "train.eval_every": math.ceil(steps / EVALUATIONS),
        "optimizer.schedule": "cosine",
        "optimizer.warmup_steps": round(WARMUP * steps),
        "optimizer.learning_rate": setting.rate,
        "model.dropout": setting.dropout,
    }
    name = f"{row.name}, {steps:,} steps, rate {setting.rate:g}, dropout {setting.dropout:g}"
    return dataclasses.replace(row, name=name, changes={**row.changes, **changes})


def architecture_name(row: Row) -> str:
    """Return the name of the architecture of a row that `run_row` has made."""
    return row.name.rsplit(", ", 3)[0]


def _with_rows(plan: Plan, rows: Iterator[Row], seeds: int) -> Plan:
    different = {row.name: row for row in rows}
    table = dataclasses.replace(plan.table, rows=tuple(different.values()))
    return plan._replace(table=table, seeds=seeds)


def tuning_plan(frontier: Frontier, plan: Plan, costs: Mapping[str, Cost]) -> Plan:
    """Return the plan of all tuning runs, with one seed."""
    rows = (
        run_row(row, budget_steps(frontier, costs, row.name)[frontier.tuned_at], setting)
        for row in plan.table.rows
        for setting in settings(frontier, plan, row)
    )
    return _with_rows(plan, rows, seeds=1)


def final_plan(
    frontier: Frontier, plan: Plan, costs: Mapping[str, Cost], tuned: Mapping[str, Setting]
) -> Plan:
    """Return the plan of the runs of all budgets, with the tuned settings and all seeds."""
    rows = (
        run_row(row, steps, tuned[row.name])
        for row in plan.table.rows
        for steps in sorted(set(budget_steps(frontier, costs, row.name).values()))
    )
    return _with_rows(plan, rows, plan.seeds)


def choose(name: str, scores: Mapping[Setting, float]) -> Setting:
    """Return the setting with the best validation score; the first of several equal ones."""
    if not scores:
        raise UserError(
            f"all tuning runs of {name} failed: see the errors above, and run the same command "
            "again to retry them"
        )
    return max(scores, key=lambda setting: scores[setting])
