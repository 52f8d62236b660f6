"""Reports of a plan's rows, each made once, in the row's own way to decode."""

import contextlib
import io
import json
import logging
import multiprocessing
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import absl.logging
import numpy as np

from configs.base import Config
from data.labelling import prepare
from evaluation.results import Wanted
from evaluation.runs import score_ensemble, score_run
from papers.measures import Report
from papers.plan import Plan
from papers.table import Row
from sweeping.devices import Share, deal
from training.checkpoints import is_done
from training.devices import make_mesh

Reports = dict[str, dict[int, Report]]  # by row and seed; an ensemble's is under seed 0

logger = logging.getLogger("alignax")


def score(plan: Plan, workers: int) -> Reports:
    """Scores what is trained and not scored yet; all reports that there are then."""
    models = [(row, seed) for row, seed in _missing(plan) if not row.merges]
    merged = [(row, seed) for row, seed in _missing(plan) if row.merges]  # of the others' reports
    for number, name in enumerate(_work(plan, models, workers), 1):
        logger.info(f"scored {number} of {len(models)}: {name}")
    for row, seed in merged:
        score_row(plan, row, seed)
    found: Reports = {}
    for row, seed in plan.scorings():
        path = plan.report(row, seed) / "scores.json"
        if path.exists():
            found.setdefault(row.name, {})[seed] = json.loads(path.read_text("utf-8"))
    return found


def _missing(plan: Plan) -> list[tuple[Row, int]]:
    """Those whose runs are all trained, and whose report is not there."""
    return [
        (row, seed)
        for row, seed in plan.scorings()
        if not (plan.report(row, seed) / "scores.json").exists()
        and all(map(is_done, plan.runs_of(row, seed)))
    ]


def _work(plan: Plan, wanted: list[tuple[Row, int]], workers: int) -> Iterator[str]:
    """In this process, or in several, each with its share of the machine."""
    if workers == 1:
        yield from (score_row(plan, row, seed) for row, seed in wanted)
        return
    context = multiprocessing.get_context("spawn")  # JAX has threads, which a fork would lose
    shares = context.Queue()
    for share in deal(workers):
        shares.put(share)
    with ProcessPoolExecutor(workers, context, _take_share, (shares,)) as pool:
        futures = [pool.submit(score_row, plan, row, seed) for row, seed in wanted]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:  # where one failed or we are interrupted: those under way come to their end
            pool.shutdown(cancel_futures=True)


def _take_share(shares: "multiprocessing.Queue[Share]") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process to act on
    absl.logging.set_verbosity(absl.logging.FATAL)
    cores, environment = shares.get()
    os.environ.update(environment)
    if cores:
        os.sched_setaffinity(0, cores)


def score_row(plan: Plan, row: Row, seed: int) -> str:
    """Writes the report of a row; its name for people."""
    folder = plan.report(row, seed)
    part = folder.with_name(f"{folder.name}.part")  # until it is whole
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with contextlib.redirect_stdout(io.StringIO()):  # a person wants to see the page
        _merge(plan, row, seed, part) if row.merges else _score(plan, row, seed, part)
    part.rename(folder)
    return f"{row.name}, {folder.name}"


def _score(plan: Plan, row: Row, seed: int, folder: Path) -> None:
    runs = plan.runs_of(row, seed)
    config = plan.trained_config(runs[0])
    wanted = Wanted("test", folder, pictures=int(seed == 0), page=0, decode=_decode(config, row))
    if row.ensemble:
        score_ensemble(config, runs, make_mesh(), row.checkpoint, wanted)
    else:
        score_run(config, runs[0], make_mesh(), row.checkpoint, wanted)


def _decode(config: Config, row: Row) -> Config:
    if "decode" not in config:
        return None
    decode = config.decode.copy_and_resolve_references()
    decode.update(dict(row.decode))
    return decode


def _merge(plan: Plan, row: Row, seed: int, folder: Path) -> None:
    """The mean of what several rows predicted for a series (Schuster 1997, §II-C)."""
    split = prepare(plan.trained_config(plan.runs_of(row, seed)[0]).data).split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(len(split)))])
    parts = [plan.report(plan.table.row(name), seed) / "predictions.txt" for name in row.merges]
    values = np.array([part.read_text().split() for part in parts], float)
    error = float(np.mean((values.mean(axis=0) - gold) ** 2))
    (folder / "scores.json").write_text(json.dumps({"split": "test", "scores": {"loss": error}}))
