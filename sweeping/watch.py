"""A sweep while it runs: a live table in a terminal, else a line whenever a run begins, ends or is
waited for."""

import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from optuna.trial import TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from errors import Stopped, stop_signals
from sweeping.devices import deal
from sweeping.leaderboard import number, rows_of
from sweeping.points import label
from sweeping.study import Record, Study
from sweeping.workers import Flags, Worker

BEST = 5  # rows of the leaderboard that are shown


def work(study: Study, base: Flags, workdir: Path, count: int) -> list[Record]:
    """Tries all that is to be tried, by so many workers, and shows how it stands. Raises Stopped
    when a signal came first; all runs are saved then."""
    stop = threading.Event()
    workers = [Worker(study, base, workdir, share, stop) for share in deal(count)]
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
    """Until the workers have ended; every so many seconds the study is asked how it stands, and
    the caller may look to something else."""
    with _screen() as (say, show):
        records = study.records()
        said = {(record.key, record.seed) for record in records if record.over}
        told, working = {""}, True
        say(f"{len(records)} runs, {len(said)} of them over; {len(workers)} at a time")
        while working:
            working = any(worker.is_alive() for worker in workers)
            records = study.records()
            for line in {_doing(worker) for worker in workers} - told:
                told.add(line)
                say(line)
            for record in records:
                if record.over and (record.key, record.seed) not in said:
                    said.add((record.key, record.seed))
                    say(_line(record, len(said), len(records), study.settings.metric))
            show(Group(_runs(workers, study.settings.metric), _best(records, study)))
            yield
            for worker in workers:
                worker.join(seconds / len(workers))


@contextlib.contextmanager
def _screen() -> Iterator[tuple[Callable[[str], None], Callable[[Group], None]]]:
    """Ways to say a line and to show tables, the second without effect outside a terminal."""
    if not sys.stderr.isatty():
        yield logging.getLogger("alignax").info, lambda tables: None
        return
    console = Console(stderr=True, highlight=False, markup=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield console.print, lambda tables: live.update(tables, refresh=True)


def _line(record: Record, done: int, of: int, metric: str) -> str:
    what = {
        TrialState.COMPLETE: f"{metric} {number(record.score)}",
        TrialState.PRUNED: f"pruned at {metric} {number(record.score)}",
        TrialState.FAIL: f"failed: {record.facts.get('error')}",
    }[record.state]
    seconds = record.facts.get("seconds", 0.0)
    return f"{done}/{of}  {label(record.point)}, seed {record.seed}: {what}, {seconds:.0f} s"


def _doing(worker: Worker) -> str:
    """What is to be said once; "" between two runs."""
    run, waits_for = worker.now, worker.waits_for
    if waits_for:
        return f"waits for {waits_for}, which another process trains"
    return f"begins: {run.name}" if run is not None else ""


def _runs(workers: Sequence[Worker], metric: str) -> Table:
    table = Table("worker", "point", "seed", "step", f"last {metric}", "seen/s", "seconds")
    for i, worker in enumerate(workers):
        run = worker.now
        if run is not None:
            table.add_row(str(i), *map(str, run.progress()))
    return table


def _best(records: Sequence[Record], study: Study) -> Table:
    metric = study.settings.metric
    over = sum(record.over for record in records)
    table = Table(f"best of {over} of {len(records)}", metric, "±", "seeds")
    for row in rows_of(records, study.lower_is_better)[:BEST]:
        if row.scores:
            scores = number(row.mean), number(row.deviation), str(len(row.scores))
            table.add_row(label(row.point), *scores)
    return table
