"""Run the workers of a sweep and show its progress.

In a terminal this is a live table; otherwise one line is logged whenever a run starts, ends or has
to wait.
"""

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from optuna.trial import TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as ScreenTable

from errors import Stopped, stop_signals
from sweeping.devices import machine_shares
from sweeping.leaderboard import make_standings, number
from sweeping.points import label
from sweeping.study import Record, Study
from sweeping.workers import Flags, Worker

BEST = 5  # points of the leaderboard in the live table


def work(study: Study, base: Flags, workdir: Path, count: int) -> list[Record]:
    """Run all trials of a study with `count` workers and return its records.

    Raises Stopped when a signal arrives first; all runs have saved a checkpoint then.
    """
    stop = threading.Event()
    workers = [Worker(study, base, workdir, share, stop) for share in machine_shares(count)]
    with stop_signals("stopping when all runs are saved") as signals:
        for worker in workers:
            worker.start()
        try:
            for _ in _watched(workers, study):
                if signals:
                    stop.set()
        finally:
            stop.set()
            for worker in workers:
                worker.join()
    for worker in workers:
        if worker.error:
            raise worker.error
    if signals:
        raise Stopped(signals[0], "runs are saved")
    return study.records()


def _watched(workers: Sequence[Worker], study: Study, seconds: float = 1.0) -> Iterator[None]:
    """Show the progress until all workers have ended; yield after every look at the study."""
    with _screen() as (say, show):
        records = study.records()
        reported = {(record.key, record.seed) for record in records if record.over}
        told, working = {""}, True
        say(f"{len(records)} runs, {len(reported)} finished; {len(workers)} at a time")
        while working:
            working = any(worker.is_alive() for worker in workers)
            records = study.records()
            for line in {_activity(worker) for worker in workers} - told:
                told.add(line)
                say(line)
            for record in records:
                if record.over and (record.key, record.seed) not in reported:
                    reported.add((record.key, record.seed))
                    say(_result(record, len(reported), len(records), study.settings.metric))
            show(Group(_running(workers, study.settings.metric), _best(records, study)))
            yield
            for worker in workers:
                worker.join(seconds / len(workers))


@contextlib.contextmanager
def _screen() -> Iterator[tuple[Callable[[str], None], Callable[[Group], None]]]:
    """Return functions that print a line and show tables; only a terminal shows tables."""
    if not sys.stderr.isatty():
        yield logging.getLogger("alignax").info, lambda tables: None
        return
    console = Console(stderr=True, highlight=False, markup=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield console.print, lambda tables: live.update(tables, refresh=True)


def _result(record: Record, done: int, total: int, metric: str) -> str:
    """Describe a finished run in one line."""
    what = {
        TrialState.COMPLETE: f"{metric} {number(record.score)}",
        TrialState.PRUNED: f"pruned at {metric} {number(record.score)}",
        TrialState.FAIL: f"failed: {record.facts.get('error')}",
    }[record.state]
    seconds = record.facts.get("seconds", 0.0)
    return f"{done}/{total}  {label(record.point)}, seed {record.seed}: {what}, {seconds:.0f} s"


def _activity(worker: Worker) -> str:
    """Describe what a worker does; empty between two runs."""
    run, waits_for = worker.now, worker.waits_for
    if waits_for:
        return f"waiting for {waits_for}, which another process is training"
    return f"starting {run.name}" if run is not None else ""


def _running(workers: Sequence[Worker], metric: str) -> ScreenTable:
    table = ScreenTable("worker", "point", "seed", "step", f"last {metric}", "seen/s", "seconds")
    for i, worker in enumerate(workers):
        run = worker.now
        if run is not None:
            table.add_row(str(i), *map(str, run.progress()))
    return table


def _best(records: Sequence[Record], study: Study) -> ScreenTable:
    metric = study.settings.metric
    over = sum(record.over for record in records)
    table = ScreenTable(f"best of {over} finished runs (of {len(records)})", metric, "±", "seeds")
    for standing in make_standings(records, study.lower_is_better)[:BEST]:
        if standing.scores:
            scores = number(standing.mean), number(standing.deviation), str(len(standing.scores))
            table.add_row(label(standing.point), *scores)
    return table
