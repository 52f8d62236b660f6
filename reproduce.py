"""Trains and scores every row of a paper's table, and writes ours beside the paper's.

python reproduce.py --list
python reproduce.py luong2015.table4 --data=multi30k_de_en --size=small --seeds=3

What is done is not done again: stopped or killed, the same command goes on, and tables share the
runs that they have in common. The page is WORKDIR/TARGET,DATA,SIZE/page.md.
"""

import difflib
import logging
import shlex
import sys
import tempfile
from pathlib import Path

from absl import flags

import program
from errors import UserError
from papers.plan import Plan, make_plan
from papers.registry import TARGETS
from papers.table import Table
from sweeping.devices import deal
from sweeping.estimate import TRYING, duration, estimate
from sweeping.points import Point, Sweep
from sweeping.study import Settings, Study
from sweeping.watch import work

_DATA = flags.DEFINE_string("data", "", "Corpus, a name of configs/datasets.py; --list has them.")
_DATA_DIR = flags.DEFINE_string("data_dir", "", "Its folder, where it is not in corpora/.")
_SIZE = flags.DEFINE_string("size", "", "Size of the models, as the configs have it.")
_SEEDS = flags.DEFINE_integer(
    "seeds", 0, "Runs of every row: seeds 0, 1, ...; 0: as many as the target has by itself.",
    lower_bound=0,
)  # fmt: skip
_WORKERS = flags.DEFINE_integer("workers", 1, "Runs side by side on this machine.", lower_bound=1)
_WORKDIR = flags.DEFINE_string("workdir", "results", "Folder of all runs, scores and pages.")
_LIST = flags.DEFINE_bool("list", False, "Show all that can be reproduced.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Only show the runs, and how long they may take.")


def main(target: str = "") -> None:
    if _LIST.value or not target:
        return _show_targets()
    if target not in TARGETS:
        close = difflib.get_close_matches(target, TARGETS, cutoff=0.4)
        near = f"did you mean {' or '.join(close)}? " if close else ""
        raise UserError(f"there is no {target}: {near}--list shows all targets")
    plan = make_plan(
        target, TARGETS[target], _DATA.value, _SIZE.value, program.folder(_WORKDIR.value, "result"),
        _SEEDS.value, _DATA_DIR.value,
    )  # fmt: skip
    if _DRY_RUN.value:
        return _show_plan(plan, _WORKERS.value)
    _check_corpus(plan)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to --workdir={plan.folder}: {error.strerror}") from error
    command = shlex.join(["python", "reproduce.py", *sys.argv[1:]])
    page = reproduce(plan, _WORKERS.value, command)
    print(page.read_text("utf-8"))
    print(f"written to {page}")


def _check_corpus(plan: Plan) -> None:
    """It is there and prepared: once, not a run each."""
    from tasks.registry import make_task  # with all that reads data, which --list need not wait for

    try:
        make_task(plan.config(plan.table.rows[0]))
    except UserError as error:
        raise UserError(f"{plan.data} cannot be read: {error}") from error


def reproduce(plan: Plan, workers: int, command: str) -> Path:
    """Trains what is not trained, scores what is not scored, and writes the page."""
    failed = _train(plan, workers)
    from papers.page import write_page  # with all of evaluation, likewise
    from papers.scoring import read_reports, score

    failed += score(plan, workers)
    page = write_page(plan, read_reports(plan), command)
    if failed:
        raise UserError(
            f"{len(failed)} failed, and {page} lacks them; the same command tries again. The "
            f"first: {failed[0]}"
        )
    return page


def _train(plan: Plan, workers: int) -> list[str]:
    """By the sweep's workers; the errors of those that failed. What is done, the runs tell, so the
    study is of this call alone."""
    runs, left = plan.runs(), plan.left()
    if not left:
        return []
    total = len(runs) * plan.seeds
    logging.getLogger("alignax").info(f"{total - len(left)} of {total} runs are trained")
    for name, rows in runs.items():
        logging.getLogger("alignax").info(f"{name}: {'; '.join(row.name for row in rows)}")
    points: list[Point] = [{"name": name} for name in runs]
    metrics = {plan.config(rows[0]).train.eval_metric for rows in runs.values()}
    settings = Settings(metrics.pop() if len(metrics) == 1 else "loss", seeds=plan.seeds)
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/study.db"
        study = Study(storage, plan.name, Sweep(points, None), settings, {}, only=set(left))
        records = work(study, plan, plan.folder, workers)
    return [f"{r.key}, seed {r.seed}: {r.facts['error']}" for r in records if "error" in r.facts]


def _show_targets() -> None:
    for name, table in TARGETS.items():
        runs = _count(name, table)
        print(f"{name:24} {table.title}")
        sizes = f" --size={'|'.join(table.sizes)}" if any(table.sizes) else ""
        print(f"{'':24} --data={'|'.join(table.data)}{sizes}")
        time = duration(60 * runs * table.minutes)
        print(f"{'':24} {runs} runs with {table.seeds} seeds, about {time} on {table.machine}")
    print("\nThe time is rough, of the first corpus and size, one run after another.")


def _count(name: str, table: Table) -> int:
    plan = make_plan(name, table, "", "", Path(), 0, "")
    return len(plan.runs()) * plan.seeds


def _some(number: int, things: str) -> str:
    return f"{number} {things}{'' if number == 1 else 's'}"


def _show_plan(plan: Plan, workers: int) -> None:
    runs, left = plan.runs(), plan.left()
    counts = _some(len(runs), "model"), _some(plan.seeds, "seed"), _some(len(left), "run")
    print(f"{plan.name}: {', '.join(counts)} to be trained")
    for name, rows in runs.items():
        done = plan.seeds - sum(name == own for own, _ in left)
        print(f"{done} of {plan.seeds} trained: {name} ({'; '.join(row.name for row in rows)})")
    if not left:
        return
    sys.stdout.flush()
    _check_corpus(plan)
    print(TRYING, flush=True)
    row = runs[left[0][0]][0]
    found = estimate(plan.base(row), dict(row.changes), deal(workers)[0])
    whole = duration(-(-len(left) // workers) * found.seconds)
    print(
        f"a run of {found.steps:,} steps may take {duration(found.seconds)} here, not counting "
        f"evaluations but one; all with --workers={workers} {whole}, were all like it; and then "
        "they are scored"
    )


if __name__ == "__main__":
    program.run(main, words=1)
