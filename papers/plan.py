"""The training runs of a results table, and the folders of runs, reports and pages.

A run is stored in RESULTS/runs/CONFIG,DATA,DIGEST/seedN, where DIGEST is a hash of the config
fields whose values differ from their defaults. Tables therefore share runs with equal configs, and
changing such a field starts a new run. The folder of a run contains its reports, one per decoding
setting. The page of a table is in RESULTS/TARGET,DATA,SIZE.

This module imports JAX only inside functions, because reproduce.py imports this module before
program.run configures JAX's compilation cache.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config, declared_fields
from configs.check import check
from configs.datasets import reverse_dataset
from errors import UserError
from papers.table import Row, Table
from papers.verdicts import CONFIDENCE, FEWEST_MODELS
from sweeping.points import Base, Point, label

CONFIGS = Path(__file__).parent.parent / "configs"


class Plan(NamedTuple):
    """A table to reproduce, with the corpus, the model size and the number of seeds."""

    target: str
    table: Table
    data: str
    size: str
    folder: Path  # parent folder of all runs and pages (RESULTS above)
    seeds: int
    overrides: dict[str, Any]  # values of config fields that are set in every run, such as data.dir
    more_seeds: dict[str, int] = {}  # number of seeds of the rows that have more than `seeds`
    rounds: int = 1  # maximum number of rounds of --decide, each with more seeds
    kept: Mapping[str, "KeptRow"] = {}  # rows whose committed seeds are reused
    kept_signatures: Mapping[str, list[str]] = {}  # sacreBLEU signatures of kept rows by measure

    @property
    def name(self) -> str:
        """Name of the page's folder, which consists of target, corpus and size."""
        return ",".join(filter(None, (self.target, self.data, self.size)))

    @property
    def page_folder(self) -> Path:
        """Folder of the page and its plots."""
        return self.folder / self.name

    @property
    def confidence(self) -> float:
        """Confidence of each interval, such that 95 % is the joint confidence of all rounds."""
        return 1 - (1 - CONFIDENCE) / self.rounds

    def seeds_of(self, row: Row) -> int:
        """Return the number of seeds of a row; an ensemble always consists of `seeds` models."""
        least = self.kept_seeds(row) or self.seeds
        return self.seeds if row.ensemble else max(least, self.more_seeds.get(row.name, 0))

    def kept_seeds(self, row: Row) -> int:
        """Return the number of seeds of a row whose results are those of a committed page."""
        return len(self.kept[row.name].content["seeds"]) if row.name in self.kept else 0

    def is_kept(self, row: Row) -> bool:
        """Return whether all results of a row are those of a committed page."""
        needed = self.kept_seeds(row) if row.ensemble else self.seeds_of(row)
        return row.name in self.kept and needed == self.kept_seeds(row)

    def corpus(self, row: Row) -> str:
        """Return the name of a row's corpus."""
        return reverse_dataset(self.data) if row.reversed else self.data

    def base(self, row: Row) -> Base:
        """Return the config of a row before `row.changes` are applied."""
        arguments = {"size": self.size, **row.arguments, "data": self.corpus(row)}
        file = CONFIGS / f"{row.config or self.table.config}.py"
        return Base(str(file), dict(arguments), self.overrides)

    def config(self, row: Row, seed: int = 0) -> Config:
        """Return the config of a row with all changes, overrides and the seed applied."""
        return self.base(row).config(dict(row.changes), seed)

    def run_name(self, row: Row) -> str:
        """Return the folder name of a row's runs: config file, corpus and a hash of the config.

        Fields that have their default values are left out of the hash, so that adding a field does
        not rename runs.
        """
        from training.workdir import PLACES, flat

        config = self.config(row)
        declared = declared_fields(config.model.name)
        known = {
            name: value
            for name, value in flat(config).items()
            if not name.startswith(PLACES)
            and (name == "model.name" or json.dumps(value) != json.dumps(declared[name].default))
        }
        text = json.dumps(known, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{row.config or self.table.config},{self.corpus(row)},{digest}"

    def run_folder(self, row: Row, seed: int) -> Path:
        """Return the folder of a row's training run with one seed."""
        return self.folder / "runs" / self.run_name(row) / f"seed{seed}"

    def runs(self) -> dict[str, list[Row]]:
        """Map each run name to the rows that use the run, which differ only in decoding."""
        found: dict[str, list[Row]] = {}
        for row in self.trained_rows():
            found.setdefault(self.run_name(row), []).append(row)
        return found

    def trained_rows(self) -> Iterator[Row]:
        """Yield the rows that have training runs here, each followed by its reverse direction."""
        for row in self.table.rows:
            if row.trained and not self.is_kept(row):
                yield from filter(None, (row, row.reverse))

    def untrained(self) -> list[tuple[str, int]]:
        """Return the name and the seed of every run that is not trained yet."""
        from training.workdir import is_done

        needed = {
            name: range(min(map(self.kept_seeds, rows)), max(map(self.seeds_of, rows)))
            for name, rows in self.runs().items()
        }
        return [
            (name, seed)
            for seed in range(max((seeds.stop for seeds in needed.values()), default=0))
            for name, seeds in needed.items()
            if seed in seeds and not is_done(self.folder / "runs" / name / f"seed{seed}")
        ]

    def flags(self, point: Point, seed: int) -> list[str]:
        """Return the flags of train.py for the run whose name is `point["name"]`.

        The workers of sweeping/workers.py call this method.
        """
        row = self.runs()[str(point["name"])][0]
        return self.base(row).flags(dict(row.changes), seed)

    def rows_to_score(self) -> Iterator[tuple[Row, int]]:
        """Yield every row with the numbers of its reports that are not on a committed page.

        For most rows, the number is the seed. Report 0 of an ensemble uses all models, and report
        n > 0 uses all except the model of seed n - 1; papers/verdicts.py estimates from these
        reports how much the ensemble varies.
        """
        for row in self.table.rows:
            if self.is_kept(row):
                continue
            count = 1 if row.link_files or row.ensemble else self.seeds_of(row)
            if row.ensemble and self.seeds >= FEWEST_MODELS:
                count += self.seeds
            yield from ((row, number) for number in range(self.kept_seeds(row), count))

    def models(self, row: Row, number: int) -> list[int]:
        """Return the seeds of the models that a report evaluates; see `rows_to_score`."""
        if not row.ensemble:
            return [number]
        return [seed for seed in range(self.seeds) if seed != number - 1]

    def report_folder(self, row: Row, number: int) -> Path:
        """Return the folder of a row's report; see `rows_to_score`."""
        if row.ensemble:
            name = f"ensemble of {self.seeds}" + (f" without seed{number - 1}" if number else "")
            return self.run_folder(row, 0).parent / name / self.scoring(row)
        return self.run_folder(row, number) / "reports" / self.scoring(row)

    def scoring(self, row: Row) -> str:
        """Return a label of the settings with which the runs of a row are scored."""
        align = {f"align.{name}": value for name, value in row.link_settings.items()}
        examples = self.table.faithfulness
        faithfulness = {"faithfulness": examples} if examples else {}
        return label({"checkpoint": row.checkpoint, **row.decode, **align, **faithfulness})

    def run_folders(self, row: Row, number: int) -> list[Path]:
        """Return the folders of all training runs that a row's report evaluates."""
        if row.merges:
            return [self.run_folder(self.table.row(name), number) for name in row.merges]
        return [self.run_folder(row, seed) for seed in self.models(row, number)]

    def reverse_folders(self, row: Row, number: int) -> list[Path]:
        """Return the folders of the runs of the reverse direction, whose links are combined."""
        return self.run_folders(row.reverse, number) if row.reverse else []

    def trained_config(self, row: Row, number: int) -> Config:
        """Return the config of the first run of a report, with the corpus and folders of this plan.

        The folder of the run is data, which does not choose the files that are opened.
        """
        from training.workdir import load_config

        seed = self.models(row, number)[0]
        config = load_config(self.run_folder(row, seed))
        config.data = self.config(row, seed).data
        return config


def make_plan(
    target: str, table: Table, data: str, size: str, folder: Path, seeds: int, corpus: str
) -> Plan:
    """Return the plan of a table; raise a UserError if the config of any row is invalid.

    If `data` or `size` is empty or `seeds` is 0, the default of the table is used. `corpus` is the
    folder of the corpus; if it is empty, the default of the config is used.
    """
    data, size, seeds = data or table.data[0], size or table.sizes[0], seeds or table.seeds
    for name, value, allowed in (("data", data, table.data), ("size", size, table.sizes)):
        if value not in allowed:
            known = ", ".join(filter(None, allowed))
            advice = f"choose one of {known}" if known else "leave the flag out"
            raise UserError(f"--{name}={value} is not available for {target}: {advice}")
    overrides = {"data.dir": corpus} if corpus else {}
    plan = Plan(target, table, data, size, folder, seeds, overrides)
    for row in plan.trained_rows():
        check(with_decoding(plan.config(row), row))
    return plan


def with_decoding(config: Config, row: Row) -> Config:
    """Set the decode settings of a row in a config, and return the config."""
    if "decode" in config:
        config.decode.update(dict(row.decode))
    return config


class KeptRow(NamedTuple):
    """A row with results on a committed page; with more seeds, new runs add to these results."""

    content: Mapping[str, Any]  # the row in results.json
    folder: Path  # folder of the page
    number: int  # position of the row on the page
