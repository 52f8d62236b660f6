"""The runs that a table needs, and the folders of runs, reports and pages.

A run is stored under a digest of its config, in RESULTS/runs/CONFIG,DATA,DIGEST/seedN. Tables thus
share runs, and a changed recipe is another run. The reports of a run are in its folder, one per way
of decoding. The page of a table is in RESULTS/TARGET,DATA,SIZE.

This module must not import JAX when it is imported: reproduce.py imports it before program.run
configures the compilation cache.
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

CONFIGS = Path(__file__).parent.parent / "configs"


class Plan(NamedTuple):
    """A table on one corpus, in one size, over some seeds."""

    target: str
    table: Table
    data: str
    size: str
    folder: Path  # of all results
    seeds: int
    overrides: dict[str, Any]  # config fields of every run, such as data.dir

    @property
    def name(self) -> str:
        return ",".join(filter(None, (self.target, self.data, self.size)))

    @property
    def page_folder(self) -> Path:
        return self.folder / self.name

    def base(self, row: Row) -> Base:
        """Return the config of a row without its changes of fields."""
        arguments = {"size": self.size, **row.arguments, "data": self.data}
        file = CONFIGS / f"{row.config or self.table.config}.py"
        return Base(str(file), dict(arguments), self.overrides)

    def config(self, row: Row, seed: int = 0) -> Config:
        return self.base(row).config(dict(row.changes), seed)

    def run_name(self, row: Row) -> str:
        """Return the name of a row's runs, which identifies their config."""
        from training.workdir import PLACES, flat

        fields = flat(self.config(row)).items()
        known = {name: value for name, value in fields if not name.startswith(PLACES)}
        text = json.dumps(known, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{row.config or self.table.config},{self.data},{digest}"

    def run(self, row: Row, seed: int) -> Path:
        return self.folder / "runs" / self.run_name(row) / f"seed{seed}"

    def runs(self) -> dict[str, list[Row]]:
        """Return the rows of every run, by run name; rows may differ in decoding only."""
        found: dict[str, list[Row]] = {}
        for row in self.table.rows:
            if not row.merges:
                found.setdefault(self.run_name(row), []).append(row)
        return found

    def left(self) -> list[tuple[str, int]]:
        """Return the names and seeds of the runs that are not trained yet."""
        from training.workdir import is_done

        return [
            (name, seed)
            for seed in range(self.seeds)
            for name in self.runs()
            if not is_done(self.folder / "runs" / name / f"seed{seed}")
        ]

    def flags(self, point: Point, seed: int) -> list[str]:
        """Return the flags of train.py for a point named after a run, for the sweep's workers."""
        row = self.runs()[str(point["name"])][0]
        return self.base(row).flags(dict(row.changes), seed)

    def scorings(self) -> Iterator[tuple[Row, int]]:
        """Yield one pair of row and seed per report; an ensemble has one report."""
        for row in self.table.rows:
            yield from ((row, seed) for seed in range(1 if row.ensemble else self.seeds))

    def report(self, row: Row, seed: int) -> Path:
        """Return the folder of a report: of one run, or of the ensemble of all seeds."""
        how = label({"checkpoint": row.checkpoint, **row.decode})
        if row.ensemble:
            return self.run(row, 0).parent / f"ensemble of {self.seeds}" / how
        return self.run(row, seed) / "reports" / how

    def runs_of(self, row: Row, seed: int) -> list[Path]:
        """Return the runs behind a report."""
        if row.merges:
            return [self.run(self.table.row(name), seed) for name in row.merges]
        return [self.run(row, s) for s in (range(self.seeds) if row.ensemble else [seed])]

    def trained_config(self, run: Path) -> Config:
        """Return the config that a run was trained with, and the current place of its corpus."""
        from training.workdir import load_config

        config = load_config(run)
        config.data.dir = self.overrides.get("data.dir", config.data.dir)
        return config


def make_plan(
    target: str, table: Table, data: str, size: str, folder: Path, seeds: int, corpus: str
) -> Plan:
    """Return the plan of a table, after building and checking the config of every row.

    An empty `data` or `size` and 0 `seeds` stand for the table's defaults.
    """
    data, size, seeds = data or table.data[0], size or table.sizes[0], seeds or table.seeds
    for name, value, allowed in (("data", data, table.data), ("size", size, table.sizes)):
        if value not in allowed:
            known = ", ".join(filter(None, allowed))
            advice = f"choose one of {known}" if known else "leave the flag out"
            raise UserError(f"--{name}={value} is not available for {target}: {advice}")
    overrides = {"data.dir": corpus} if corpus else {}
    plan = Plan(target, table, data, size, folder, seeds, overrides)
    for row in table.rows:
        if not row.merges:
            check(decoded(plan.config(row), row))
    return plan


def decoded(config: Config, row: Row) -> Config:
    """Apply a row's decoding settings to a config."""
    if "decode" in config:
        config.decode.update(dict(row.decode))
    return config


class Facts(NamedTuple):
    """What is known about a run besides its scores."""

    parameters: int
    count: float  # number of tokens, or of other units of the loss, that the run has seen
    seconds: float  # of training, compiling and evaluating; repeated steps count once
    commit: str
    device: str


def facts(run: Path) -> Facts:
    """Read the facts of a run from its log and run.json."""
    parameters, count, seconds, before = 0, 0.0, 0.0, 0.0
    # Samples may contain U+2028, where splitlines() would split a line.
    for line in map(json.loads, (run / "log.jsonl").read_bytes().split(b"\n")[:-1]):
        parameters, count = line.get("parameters", parameters), line.get("count", count)
        if line["kind"] != "run":  # a "run" line starts an attempt, perhaps days later
            seconds += line["time"] - before
        before = line["time"]
    last = json.loads((run / "run.json").read_text("utf-8"))[-1]
    return Facts(parameters, count, seconds, last["commit"], last["devices"][0])
