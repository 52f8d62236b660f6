"""Which runs a table wants, and where they and their reports are.

Runs are kept by what they are, RESULTS/runs/CONFIG,DATA,DIGEST/seedN, so that tables share them and
a changed recipe is another run. A run's reports are in its folder, by how it was decoded. A table's
own folder, RESULTS/TARGET,DATA,SIZE, has its page.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config
from configs.check import check
from errors import UserError
from papers.table import Row, Table
from sweeping.points import Base, Point, label
from training.workdir import PLACES, flat, is_done, load_config

CONFIGS = Path(__file__).parent.parent / "configs"


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
        """The folder of the page."""
        return self.folder / self.name

    def base(self, row: Row) -> Base:
        sizes = {"size": self.size} if self.size else {}
        arguments = {**sizes, **row.arguments, "data": self.data}
        file = CONFIGS / f"{row.config or self.table.config}.py"
        return Base(str(file), dict(arguments), self.overrides)

    def config(self, row: Row, seed: int = 0) -> Config:
        return self.base(row).config(dict(row.changes), seed)

    def run_name(self, row: Row) -> str:
        fields = flat(self.config(row)).items()
        known = {name: value for name, value in fields if not name.startswith(PLACES)}
        text = json.dumps(known, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{row.config or self.table.config},{self.data},{digest}"

    def run(self, row: Row, seed: int) -> Path:
        return self.folder / "runs" / self.run_name(row) / f"seed{seed}"

    def runs(self) -> dict[str, list[Row]]:
        """All that are wanted, by name, with the rows that they make: some are only scored in
        another way."""
        found: dict[str, list[Row]] = {}
        for row in self.table.rows:
            if not row.merges:
                found.setdefault(self.run_name(row), []).append(row)
        return found

    def left(self) -> list[tuple[str, int]]:
        """Names and seeds of the runs that are not trained yet."""
        return [
            (name, seed)
            for seed in range(self.seeds)
            for name in self.runs()
            if not is_done(self.folder / "runs" / name / f"seed{seed}")
        ]

    def flags(self, point: Point, seed: int) -> list[str]:
        """What train.py is called with, as the sweep's workers ask for it."""
        row = self.runs()[str(point["name"])][0]
        return self.base(row).flags(dict(row.changes), seed)

    def scorings(self) -> Iterator[tuple[Row, int]]:
        """All that is to be reported: rows with their seeds, ensembles once."""
        for row in self.table.rows:
            yield from ((row, seed) for seed in range(1 if row.ensemble else self.seeds))

    def report(self, row: Row, seed: int) -> Path:
        """The folder of a report: of a run, or of all seeds' as one."""
        how = label({"checkpoint": row.checkpoint, **row.decode})
        if row.ensemble:
            return self.run(row, 0).parent / f"ensemble of {self.seeds}" / how
        return self.run(row, seed) / "reports" / how

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


def make_plan(
    target: str, table: Table, data: str, size: str, folder: Path, seeds: int, corpus: str
) -> Plan:
    """An empty name is the table's first; all rows are built, so that a slip need not wait for its
    turn."""
    data, size, seeds = data or table.data[0], size or table.sizes[0], seeds or table.seeds
    for name, value, legal in (("data", data, table.data), ("size", size, table.sizes)):
        if value not in legal:
            known = ", ".join(filter(None, legal))
            said = f"can be run with {known}" if known else f"has no {name} to choose"
            raise UserError(f"--{name}={value}: {target} {said}")
    overrides = {"data.dir": corpus} if corpus else {}
    plan = Plan(target, table, data, size, folder, seeds, overrides)
    for row in table.rows:
        if not row.merges:
            check(decoded(plan.config(row), row))
    return plan


def decoded(config: Config, row: Row) -> Config:
    """A config with the row's own way to decode."""
    if "decode" in config:
        config.decode.update(dict(row.decode))
    return config


class Facts(NamedTuple):
    """What a run tells beside its scores."""

    parameters: int
    count: float  # tokens, or what else losses are means over
    seconds: float  # of training, compiling and evaluating; steps that were taken again count once
    commit: str
    device: str


def facts(run: Path) -> Facts:
    parameters, count, seconds, before = 0, 0.0, 0.0, 0.0
    # Samples may hold U+2028, at which splitlines() would cut a line.
    for line in map(json.loads, (run / "log.jsonl").read_bytes().split(b"\n")[:-1]):
        parameters, count = line.get("parameters", parameters), line.get("count", count)
        if line["kind"] != "run":  # which begins an attempt, perhaps days later
            seconds += line["time"] - before
        before = line["time"]
    last = json.loads((run / "run.json").read_text("utf-8"))[-1]
    return Facts(parameters, count, seconds, last["commit"], last["devices"][0])
