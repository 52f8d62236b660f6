"""Run the workers of a sweep and show their progress.

Live tables are shown if stderr is a terminal. One line is printed whenever a run starts, waits for
another process that still uses its folder, or ends.
"""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from optuna.trial import TrialState
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as ScreenTable

from errors import Stopped, stop_signals
from sweeping.devices import machine_shares
from sweeping.estimate import duration
from sweeping.leaderboard import make_standings, number
from sweeping.points import label
from sweeping.settings import LOSS_UNIT
from sweeping.study import Record, Study
from sweeping.workers import Flags, Worker
from terminal import clean_lines

BEST = 5  # number of points that the live table of the best points shows


def work(
    study: Study, base: Flags, workdir: Path, count: int, unit: str = LOSS_UNIT
) -> list[Record]:
    """Run all trials of a study with `count` workers and return its records.

    After SIGINT or SIGTERM, all runs save a checkpoint, and Stopped is raised. `unit` is the plural
    name of the units that the loss is averaged over, such as "tokens".
    """
    stop = threading.Event()
    workers = [Worker(study, base, workdir, share, stop) for share in machine_shares(count)]
    with stop_signals("stopping after all runs have saved a checkpoint") as signals:
        for worker in workers:
            worker.start()
        try:
            for _ in _watch(workers, study, unit):
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
        raise Stopped(signals[0], "all runs have saved a checkpoint")
    return study.records()


def _watch(
    workers: Sequence[Worker], study: Study, unit: str, seconds: float = 1.0
) -> Iterator[None]:
    """Show progress every `seconds` until all workers have finished; yield after each update."""
    with _screen() as (print_line, show):
        records = study.records()
        reported = {(record.key, record.seed) for record in records if record.over}
        printed, working, began, before = {""}, True, time.monotonic(), len(reported)
        print_line(f"{len(records)} runs, {len(reported)} finished; {len(workers)} in parallel")
        while working:
            working = any(worker.is_alive() for worker in workers)
            records = study.records()
            for line in {_activity(worker) for worker in workers} - printed:
                printed.add(line)
                print_line(line)
            for record in records:
                if record.over and (record.key, record.seed) not in reported:
                    reported.add((record.key, record.seed))
                    line = _result(record, len(reported), len(records), study.settings.metric)
                    done, left = len(reported) - before, len(records) - len(reported)
                    print_line(line + time_left(done, left, len(workers), time.monotonic() - began))
            show(Group(_running(workers, study.settings.metric, unit), _best(records, study)))
            yield
            for worker in workers:
                worker.join(seconds / len(workers))


def time_left(done: int, left: int, workers: int, seconds: float) -> str:
    """Return about how long `left` more runs will take, given that `done` runs took `seconds`.

    Return "" before every worker has finished a run, and after the last run.
    """
    if done < workers or not left:
        return ""
    return f", about {duration(-(-left // workers) * seconds * workers / done)} left"


@contextlib.contextmanager
def _screen() -> Iterator[tuple[Callable[[str], None], Callable[[Group], None]]]:
    """Yield two functions: the first prints a line, the second shows tables.

    The second function does nothing if stderr is not a terminal.
    """
    if not sys.stderr.isatty():
        yield logging.getLogger("alignax").info, lambda tables: None
        return
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield (
            lambda line: console.print(clean_lines(line)),
            lambda tables: live.update(tables, refresh=True),
        )


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
    """Describe the activity of a worker; return "" if the worker is between two runs."""
    run, waits_for = worker.current, worker.waits_for
    if waits_for:
        return f"waiting for {waits_for}, which another process is training"
    return f"starting {run.name}" if run is not None else ""


def _running(workers: Sequence[Worker], metric: str, unit: str) -> ScreenTable:
    columns = ("worker", "point", "seed", "step", f"last {metric}", f"{unit}/s", "seconds")
    table = ScreenTable(*columns)
    for i, worker in enumerate(workers):
        run = worker.current
        if run is not None:
            table.add_row(str(i), *(clean_lines(str(cell)) for cell in run.progress()))
    return table


def _best(records: Sequence[Record], study: Study) -> ScreenTable:
    metric = study.settings.metric
    over = sum(record.over for record in records)
    title = f"best points after {over} of {len(records)} runs"
    table = ScreenTable(title, metric, "standard deviation", "seeds")
    for standing in make_standings(records, study.lower_is_better)[:BEST]:
        if standing.scores:
            scores = number(standing.mean), number(standing.deviation), str(len(standing.scores))
            table.add_row(label(standing.point), *scores)
    return table
