"""Reports of a plan's rows, each made once, in the row's own way to decode."""

import contextlib
import ctypes
import io
import json
import logging
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

import absl.logging
import numpy as np

from data.labelling import prepare
from errors import UserError
from evaluation.results import Wanted
from evaluation.runs import score_ensemble, score_run
from papers.measures import Report
from papers.plan import Plan, decoded
from papers.table import Row
from sweeping.devices import Share, deal
from sweeping.launch import PR_SET_PDEATHSIG
from training.checkpoints import is_done
from training.devices import make_mesh

Reports = dict[str, dict[int, Report]]  # by row and seed; an ensemble's is under seed 0

logger = logging.getLogger("alignax")


def score(plan: Plan, workers: int) -> list[str]:
    """Scores what is trained and not scored yet; the errors of those that failed."""
    wanted = [
        (row, seed)
        for row, seed in plan.scorings()
        if not (row.merges or plan.report(row, seed).exists())
        and all(map(is_done, plan.runs_of(row, seed)))
    ]
    errors = []
    for number, (name, error) in enumerate(_work(plan, wanted, workers), 1):
        said = f"failed: {error}" if error else "done"
        logger.info(f"scoring {number} of {len(wanted)}, {name}: {said}")
        errors += [f"scoring {name}: {error}"] if error else []
    return errors


def _work(plan: Plan, wanted: list[tuple[Row, int]], workers: int) -> Iterator[tuple[str, str]]:
    """In this process, or in several, each with its share of the machine."""
    if workers == 1:
        yield from (score_row(plan, row, seed) for row, seed in wanted)
        return
    context = multiprocessing.get_context("spawn")  # JAX has threads, which a fork would lose
    shares = context.Queue()
    for share in deal(workers):
        shares.put(share)
    with ProcessPoolExecutor(workers, context, _take_share, (shares, os.getpid())) as pool:
        futures = [pool.submit(score_row, plan, row, seed) for row, seed in wanted]
        try:
            yield from (future.result() for future in as_completed(futures))
        finally:  # where we are interrupted: those under way come to their end
            pool.shutdown(cancel_futures=True)


def _take_share(shares: "multiprocessing.Queue[Share]", parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process to act on
    absl.logging.set_verbosity(absl.logging.FATAL)
    cores, environment = shares.get()
    os.environ.update(environment)
    if sys.platform == "linux":
        os.sched_setaffinity(0, cores)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


def score_row(plan: Plan, row: Row, seed: int) -> tuple[str, str]:
    """Writes the report of a row; its name, and what went wrong if something did."""
    folder, runs = plan.report(row, seed), plan.runs_of(row, seed)
    name = f"{row.name}, " + (f"{len(runs)} models" if row.ensemble else f"seed {seed}")
    part = folder.with_name(f"{folder.name}.{os.getpid()}")  # until it is whole
    config = decoded(plan.trained_config(runs[0]), row)
    decode = config.get("decode")
    wanted = Wanted("test", part, pictures=int(seed == 0), page=0, decode=decode)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # a person wants to see the page
            if row.ensemble:
                score_ensemble(config, runs, make_mesh(), row.checkpoint, wanted)
            else:
                score_run(config, runs[0], make_mesh(), row.checkpoint, wanted)
    except UserError as error:
        shutil.rmtree(part, ignore_errors=True)
        return name, str(error)
    try:
        part.rename(folder)
    except OSError:  # another table was first, with the same
        shutil.rmtree(part)
    return name, ""


def read_reports(plan: Plan) -> Reports:
    """All that there are."""
    found: Reports = {}
    for row, seed in plan.scorings():
        if row.merges:
            report = _merged(plan, row, seed)
        else:
            path = plan.report(row, seed) / "scores.json"
            report = json.loads(path.read_text("utf-8")) if path.exists() else None
        if report is not None:
            found.setdefault(row.name, {})[seed] = report
    return found


def _merged(plan: Plan, row: Row, seed: int) -> Report | None:
    """The mean of what several rows predicted for a series (Schuster 1997, §II-C)."""
    parts = [plan.report(plan.table.row(name), seed) / "predictions.txt" for name in row.merges]
    if not all(part.exists() for part in parts):
        return None
    split = prepare(plan.trained_config(plan.runs_of(row, seed)[0]).data).split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(len(split)))])
    values = np.array([part.read_text().split() for part in parts], float)
    return {"scores": {"loss": float(np.mean((values.mean(axis=0) - gold) ** 2))}}
