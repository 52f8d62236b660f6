"""Which runs a table wants, and where they and their scores are.

Runs are kept by what they are, so tables share them: RESULTS/runs/CONFIG,ARGUMENTS,CHANGES/seedN.
A table's own folder, RESULTS/TARGET,DATA,SIZE, has the scores of its rows and its page.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config
from errors import UserError
from papers.table import Row, Table
from sweeping.points import Base, Point, label
from training.checkpoints import is_done
from training.workdir import load_config


class Plan(NamedTuple):
    """A table on a corpus, in a size, over some seeds."""

    target: str
    table: Table
    data: str
    size: str
    folder: Path  # of all results
    seeds: int
    overrides: dict[str, Any]  # for every run: where the corpus is, say

    @property
    def name(self) -> str:
        return ",".join(filter(None, (self.target, self.data, self.size)))

    @property
    def own(self) -> Path:
        """The folder of the page, and of the scores behind it."""
        return self.folder / self.name

    def base(self, row: Row) -> Base:
        sizes = {"size": self.size} if self.size else {}
        arguments = {**sizes, **row.arguments, "data": self.data}
        file = f"configs/{row.config or self.table.config}.py"
        return Base(file, dict(arguments), self.overrides)

    def config(self, row: Row, seed: int = 0) -> Config:
        return self.base(row).config(dict(row.changes), seed)

    def run_name(self, row: Row) -> str:
        """By its config alone: rows that are only scored differently share a run."""
        base = self.base(row)
        point: Point = {**base.arguments, **row.changes}
        return f"{Path(base.file).stem},{label(point)}"

    def run(self, row: Row, seed: int) -> Path:
        return self.folder / "runs" / self.run_name(row) / f"seed{seed}"

    def runs(self) -> dict[str, Row]:
        """All that are wanted, by name, each once, with a row that they make."""
        return {self.run_name(row): row for row in self.table.rows if not row.merges}

    def points(self) -> list[Point]:
        """Those that are not all trained, for the sweep's workers."""
        return [{"name": name} for name, row in self.runs().items() if self.left(row)]

    def left(self, row: Row) -> int:
        """How many of its runs are not trained."""
        return sum(not is_done(self.run(row, seed)) for seed in range(self.seeds))

    def flags(self, point: Point, seed: int) -> list[str]:
        """What train.py is called with, as a worker asks for it."""
        row = self.runs()[str(point["name"])]
        return self.base(row).flags(dict(row.changes), seed)

    def runs_of(self, row: Row, seed: int) -> list[Path]:
        """Those that a report is of."""
        if row.merges:
            return [self.run(self.table.row(name), seed) for name in row.merges]
        return [self.run(row, s) for s in (range(self.seeds) if row.ensemble else [seed])]

    def trained_config(self, run: Path) -> Config:
        """As it was trained, with the corpus where it is now."""
        config = load_config(run)
        config.data.dir = self.overrides.get("data.dir", config.data.dir)
        return config

    def scorings(self) -> Iterator[tuple[Row, int]]:
        """All that is to be scored: rows with their seeds, ensembles once."""
        for row in self.table.rows:
            yield from ((row, seed) for seed in range(1 if row.ensemble else self.seeds))

    def report(self, row: Row, seed: int) -> Path:
        """The folder of a row's report."""
        last = f"ensemble of {self.seeds}" if row.ensemble else f"seed{seed}"
        return self.own / "scores" / row.name.replace("/", "-") / last


def make_plan(
    target: str, table: Table, data: str, size: str, folder: Path, seeds: int, corpus: str
) -> Plan:
    """An empty name is the table's first; all rows are built, so that a slip need not wait for its
    turn."""
    data, size, seeds = data or table.data[0], size or table.sizes[0], seeds or table.seeds
    for name, value, legal in (("data", data, table.data), ("size", size, table.sizes)):
        if value not in legal:
            known = ", ".join(filter(None, legal)) or "none"
            raise UserError(f"--{name}={value}: {target} can be run with {known}")
    overrides = {"data.dir": corpus} if corpus else {}
    plan = Plan(target, table, data, size, folder, seeds, overrides)
    for row in plan.runs().values():
        plan.config(row)
    return plan


class Facts(NamedTuple):
    """What a run's log tells beside its scores."""

    parameters: int
    count: float  # tokens, or what else losses are means over
    seconds: float  # of training, compiling and evaluating, over all attempts


def facts(run: Path) -> Facts | None:
    if not (run / "log.jsonl").exists():
        return None
    parameters, count, seconds, before = 0, 0.0, 0.0, 0.0
    for line in map(json.loads, (run / "log.jsonl").read_text("utf-8").splitlines()):
        parameters, count = line.get("parameters", parameters), line.get("count", count)
        if line["kind"] != "run":  # which begins an attempt, perhaps days later
            seconds += line["time"] - before
        before = line["time"]
    return Facts(parameters, count, seconds)
