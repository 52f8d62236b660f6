"""Score the runs of a paper's table and read their reports. Runs with a report are not scored."""

import contextlib
import io
import logging
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import absl.logging
import jax
import numpy as np

from data.files import find
from data.labelling import LabellingCorpus
from data.links import Link, parse_links
from data.translation import TranslationCorpus
from errors import Stopped, UserError, first_line, stop_signals
from evaluation.alignment import SYMMETRIZATIONS, LinkSettings, alignment_error_rate
from evaluation.results import ReportOptions
from experiment import score_ensemble, score_run
from papers.kept import kept_reports
from papers.measures import Report
from papers.plan import Plan, with_decoding
from papers.table import Row
from reading import read_json, read_text, reading
from sweeping.devices import Share, machine_shares
from sweeping.launch import tie_to_parent
from training.devices import make_mesh
from training.records import best_metrics, read_complete_log
from training.workdir import is_done

Reports = dict[str, dict[int, Report]]  # reports by row name and number; see Plan.rows_to_score

SCORE_AGAIN = "remove its folder to score the row again"
KILLED = "its process was killed, possibly because memory ran out: use fewer --workers"

logger = logging.getLogger("alignax")
# The parts of scores.json that a page reads; see `reading.matching`.
_REPORT = {
    "scores": {str: float | None},
    "checkpoints?": list,
    "decode?": {"beam": int},
    "signatures?": {str: str},
    "curves?": {str: [{"label": str, "sentences": int, "scores": {str: float | None}}]},
    "attention?": {str: {str: float | None}},
    "faithfulness?": {str: float | None},
}


def score_plan(plan: Plan, workers: int) -> list[str]:
    """Score all trained runs that have no report yet; return one error message per failure.

    If the results of the table are from training logs, no run is scored.
    """
    if plan.table.from_logs:
        return []
    wanted = [
        (row, number)
        for row, number in plan.rows_to_score()
        if row.trained
        and not plan.report_folder(row, number).exists()
        and all(map(is_done, plan.run_folders(row, number) + plan.reverse_folders(row, number)))
    ]
    if not wanted:
        return []
    logger.info(f"scoring the test split: {len(wanted)} reports to write")
    errors = []
    with stop_signals("stopping when the reports in progress are written") as signals:
        for number, (name, error) in enumerate(_score_all(plan, wanted, workers, signals), 1):
            outcome = f"failed: {error}" if error else "done"
            logger.info(f"{number}/{len(wanted)}  {name}: {outcome}")
            errors += [f"scoring {name}: {error}"] if error else []
    if signals:
        raise Stopped(signals[0], "finished reports are kept")
    return errors


def _score_all(
    plan: Plan, wanted: list[tuple[Row, int]], workers: int, signals: list[int]
) -> Iterator[tuple[str, str]]:
    """Score rows until a signal arrives; yield each report's name and its error message or "".

    With one worker, this process scores all rows. Several workers are separate processes, and each
    uses its share of the machine.
    """
    if workers == 1:
        for row, number in wanted:
            if not signals:
                yield _name(plan, row, number), score_row(plan, row, number)
        return
    # Spawn the workers: forking a process in which JAX has started threads can deadlock.
    context = multiprocessing.get_context("spawn")
    shares = context.Queue()
    for share in machine_shares(workers):
        shares.put(share)
    with ProcessPoolExecutor(workers, context, _take_share, (shares, os.getpid())) as pool:
        waiting = {pool.submit(score_row, plan, *report): report for report in wanted}
        while waiting:
            for future in wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED).done:
                row, number = waiting.pop(future)
                name = _name(plan, row, number)
                try:
                    yield name, future.result()
                except BrokenProcessPool:  # one dead worker makes all remaining futures fail
                    yield name, KILLED
            if signals:  # after a signal, cancel the reports that have not started
                waiting = {future: key for future, key in waiting.items() if not future.cancel()}


def _take_share(shares: "multiprocessing.Queue[Share]", parent: int) -> None:
    """Restrict this worker process to one share of the machine, and tie its life to the parent's.

    On Linux, the worker process is killed when its parent dies.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # only the parent handles signals
        signal.signal(number, signal.SIG_IGN)
    absl.logging.set_verbosity(absl.logging.FATAL)
    cores, environment = shares.get()
    os.environ.update(environment)
    tie_to_parent(parent, cores, signal.SIGKILL)


def _name(plan: Plan, row: Row, number: int) -> str:
    """Return the name of a report for log lines."""
    if not row.ensemble:
        return f"{row.name}, seed {number}"
    return f"{row.name}, {plan.seeds} models" + (f" without seed {number - 1}" if number else "")


def score_row(plan: Plan, row: Row, number: int) -> str:
    """Write the report of a row; return an error message, or "" on success."""
    folder, runs = plan.report_folder(row, number), plan.run_folders(row, number)
    config = with_decoding(plan.trained_config(row, number), row)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Write to a temporary folder first, so that no incomplete report is ever read.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as part:
        complete, decode = Path(part) / "report", config.get("decode")
        pictures, settings = int(number == 0), dict[str, Any](row.link_settings)
        reverse = tuple(map(str, plan.reverse_folders(row, number)))
        options = ReportOptions(
            "test", complete, pictures=pictures, page=0, decode=decode, ter=False,
            link_settings=LinkSettings(reverse=reverse, **settings),
            faithfulness=plan.table.faithfulness,
        )  # fmt: skip
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # suppress the printed scores
                if row.ensemble:
                    score_ensemble(config, runs, make_mesh(), row.checkpoint, options)
                else:
                    score_run(config, runs[0], make_mesh(), row.checkpoint, options)
            complete.rename(folder)
        except UserError as error:
            return str(error)
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            return first_line(error)
        except OSError as error:
            if not folder.exists():  # otherwise, another process wrote the report in this folder
                return first_line(error)
    return ""


def read_reports(plan: Plan) -> Reports:
    """Read all existing reports of a table's rows, of ensembles only those on all models.

    If the results of the table are from training logs, or if they are kept, the reports contain
    only these results.
    """
    return _read_reports(plan, lambda row, number: not (row.ensemble and number))


def read_left_out(plan: Plan) -> Reports:
    """Read all existing reports on ensembles without one of their models."""
    return _read_reports(plan, lambda row, number: row.ensemble and number > 0)


def _read_reports(plan: Plan, wanted: Callable[[Row, int], bool]) -> Reports:
    found: Reports = {row.name: {} for row in plan.table.rows}
    for name in plan.kept:
        row = plan.table.row(name)
        reports = kept_reports(plan, row)
        found[name] = {number: reports[number] for number in reports if wanted(row, number)}
    for row, number in plan.rows_to_score():
        if not wanted(row, number):
            continue
        if plan.table.from_logs:
            report = _logged(plan, row, number)
        elif row.merges:
            report = _merged(plan, row, number)
        elif row.link_files:
            report = _linked(plan, row)
        else:
            path = plan.report_folder(row, number) / "scores.json"
            report = read_json(path, _REPORT, SCORE_AGAIN) if path.exists() else None
        if report is not None:
            found[row.name][number] = report
    return {name: by_number for name, by_number in found.items() if by_number}


def _logged(plan: Plan, row: Row, seed: int) -> Report | None:
    """Return the scores of the best evaluation in the log of a complete run as a report."""
    folder = plan.run_folder(row, seed)
    if not is_done(folder):
        return None
    metric = plan.config(row, seed).train.eval_metric
    return {"scores": best_metrics(read_complete_log(folder / "log.jsonl"), metric)}


def _merged(plan: Plan, row: Row, seed: int) -> Report | None:
    """Score the mean of the predictions of the rows in `row.merges` (Schuster 1997, §II-C)."""
    parts = [
        plan.report_folder(plan.table.row(name), seed) / "predictions.txt" for name in row.merges
    ]
    if not all(part.exists() for part in parts):
        return None
    config = plan.trained_config(plan.table.row(row.merges[0]), seed)
    split = LabellingCorpus(config.data).prepare().split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(len(split)))])
    values = []
    for part in parts:
        with reading(part):
            values.append(np.array(read_text(part).split(), float))
            if len(values[-1]) != len(gold):
                raise ValueError(f"it has {len(values[-1])} values for {len(gold)} time steps")
    return {"scores": {"loss": float(np.mean((np.mean(values, axis=0) - gold) ** 2))}}


def _linked(plan: Plan, row: Row) -> Report | None:
    """Score the word links of another program; `row.link_files` names one file per direction.

    The files contain the links of the training split, in which all test sentences must occur.
    Return None if the corpus has no such files.
    """
    assert row.link_files is not None
    data, read = plan.config(row).data, TranslationCorpus.readers["text"]
    try:
        for pattern in row.link_files:
            find(data, data.splits.train, pattern=pattern)
    except UserError:
        return None

    def links(pattern: str) -> dict[tuple[str, str], set[Link]]:
        data.links = pattern
        pairs = read(data, data.splits.train)
        return {(pair.source, pair.target): parse_links(pair.links).sure for pair in pairs}

    directions = [links(pattern) for pattern in row.link_files]
    test = [pair for pair in read(data, data.splits.test) if pair.alignment]
    method = SYMMETRIZATIONS[str(row.link_settings["symmetrize"])]
    found = [method(*(links[pair.source, pair.target] for links in directions)) for pair in test]
    error = alignment_error_rate(found, [parse_links(pair.alignment) for pair in test])
    return {"scores": {"alignment_error": error}}
