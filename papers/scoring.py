"""Reports of a plan's rows, each made once: decoded in the row's own way, beside the row above."""

import contextlib
import io
import json
import logging
import shutil
from pathlib import Path

import numpy as np

from configs.base import Config
from data.labelling import prepare
from evaluation.results import Wanted
from evaluation.runs import score_ensemble, score_run
from papers.measures import Report
from papers.plan import Plan
from papers.table import Row
from training.checkpoints import is_done
from training.devices import make_mesh
from training.workdir import load_config

Reports = dict[str, dict[int, Report]]  # by row and seed; an ensemble's has the seed 0

logger = logging.getLogger("alignax")


def score(plan: Plan) -> Reports:
    """Scores what is trained and not scored yet; all reports that there are then."""
    found: Reports = {}
    for row, seed in plan.scorings():
        folder = plan.scored(row, seed)
        if not (folder / "scores.json").exists() and _ready(plan, row, seed):
            logger.info(f"scoring {row.name}, {folder.name}")
            part = folder.with_name(f"{folder.name}.part")  # until it is whole
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            with contextlib.redirect_stdout(io.StringIO()):  # a person wants to see the page
                _merge(plan, row, seed or 0, part) if row.merges else _score(plan, row, seed, part)
            part.rename(folder)
        if (folder / "scores.json").exists():
            report = json.loads((folder / "scores.json").read_text("utf-8"))
            found.setdefault(row.name, {})[seed or 0] = report
    return found


def _ready(plan: Plan, row: Row, seed: int | None) -> bool:
    rows = [plan.table.row(name) for name in row.merges] or [row]
    seeds = range(plan.seeds) if seed is None else [seed]
    return all(is_done(plan.run(own, s)) for own in rows for s in seeds)


def _score(plan: Plan, row: Row, seed: int | None, folder: Path) -> None:
    runs = [plan.run(row, s) for s in (range(plan.seeds) if seed is None else [seed])]
    config = load_config(runs[0])
    config.data.dir = plan.overrides.get("data.dir", config.data.dir)
    wanted = Wanted(
        "test", folder, pictures=int(seed == 0), page=0, decode=_decode(config, row),
        against=_against(plan, row, seed, config),
    )  # fmt: skip
    if seed is None:
        score_ensemble(config, runs, make_mesh(), row.checkpoint, wanted)
    else:
        score_run(config, runs[0], make_mesh(), row.checkpoint, wanted)


def _decode(config: Config, row: Row) -> Config:
    if "decode" not in config:
        return None
    decode = config.decode.copy_and_resolve_references()
    decode.update(dict(row.decode))
    return decode


def _against(plan: Plan, row: Row, seed: int | None, config: Config) -> Path | None:
    """The row above, of the same seed, whose translations are compared; of ensembles the first."""
    above = plan.table.above(row)
    if above is None or config.task != "translation":
        return None
    folder = plan.scored(above, None if above.ensemble else seed or 0)
    return folder if folder.exists() else None


def _merge(plan: Plan, row: Row, seed: int, folder: Path) -> None:
    """The mean of what several rows predicted for a series (Schuster 1997, §II-C)."""
    rows = [plan.table.row(name) for name in row.merges]
    split = prepare(load_config(plan.run(rows[0], seed)).data).split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(len(split)))])
    files = [(plan.scored(own, seed) / "predictions.txt").read_text().split() for own in rows]
    error = float(np.mean((np.mean(np.array(files, float), axis=0) - gold) ** 2))
    (folder / "scores.json").write_text(json.dumps({"split": "test", "scores": {"loss": error}}))
