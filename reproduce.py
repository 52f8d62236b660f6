"""Train and score every row of a paper's table, and compare it with the published figures.

python reproduce.py --list
python reproduce.py luong2015.table4 --data=multi30k_de_en --size=small --seeds=3

Finished runs and reports are kept: the same command continues after an interruption, and tables
share the runs that they have in common. The page is WORKDIR/TARGET,DATA,SIZE/page.md.
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
from papers.registry import find_targets
from papers.table import Table
from sweeping.devices import machine_shares
from sweeping.estimate import TRIAL_MESSAGE, duration, estimate
from sweeping.packages import check_packages
from sweeping.points import Point, Sweep
from sweeping.settings import Settings

# Modules that import JAX or Optuna are imported inside functions: program.run configures the
# compilation cache first, and --help and --list do not need them.

_DATA = flags.DEFINE_string("data", "", "Corpus: one of the names that --list shows.")
_DATA_DIR = flags.DEFINE_string("data_dir", "", "Folder of the corpus, if it is not in corpora/.")
_SIZE = flags.DEFINE_string("size", "", "Model size: one of the names that --list shows.")
_SEEDS = flags.DEFINE_integer(
    "seeds", 0, "Runs per row: seeds 0, 1, ...; 0: the target's default.", lower_bound=0
)
_WORKERS = flags.DEFINE_integer(
    "workers", 1, "Number of parallel runs on this machine.", lower_bound=1
)
_WORKDIR = flags.DEFINE_string("workdir", "results", "Folder of all runs, reports and pages.")
_LIST = flags.DEFINE_bool("list", False, "List all targets.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Only list the runs and estimate the total time.")


def main(target: str = "") -> None:
    targets = find_targets()
    if _LIST.value or not target:
        return _show_targets(targets)
    if target not in targets:
        close = difflib.get_close_matches(target, targets, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UserError(f"there is no target {target}: {hint}--list shows all targets")
    check_packages("reproduce.py")
    plan = make_plan(
        target, targets[target], _DATA.value, _SIZE.value, program.folder(_WORKDIR.value, "result"),
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
    """Prepare the corpus once, before all runs, and report an unreadable one."""
    from tasks.registry import make_task

    try:
        make_task(plan.config(plan.table.rows[0]))
    except UserError as error:
        raise UserError(f"cannot read the corpus {plan.data}: {error}") from error


def reproduce(plan: Plan, workers: int, command: str) -> Path:
    """Train and score whatever is missing, write the page, and return its path."""
    failed = _train(plan, workers)
    from papers.page import write_page
    from papers.scoring import read_reports, score_plan

    failed += score_plan(plan, workers)
    page = write_page(plan, read_reports(plan), command)
    if failed:
        raise UserError(
            f"{len(failed)} runs or reports failed and are missing in {page}; the same command "
            f"tries them again. The first error: {failed[0]}"
        )
    return page


def _train(plan: Plan, workers: int) -> list[str]:
    """Train the missing runs with the workers of a sweep; return the errors of failed runs.

    The run folders record which runs are done, so the study is temporary.
    """
    runs, left = plan.runs(), plan.untrained()
    if not left:
        return []
    from sweeping.study import Study
    from sweeping.watch import work

    total, logger = len(runs) * plan.seeds, logging.getLogger("alignax")
    logger.info(f"{total - len(left)} of {total} runs are trained")
    for name, rows in runs.items():
        logger.info(f"{name}: {'; '.join(row.name for row in rows)}")
    points: list[Point] = [{"name": name} for name in runs]
    metrics = {plan.config(rows[0]).train.eval_metric for rows in runs.values()}
    settings = Settings(metrics.pop() if len(metrics) == 1 else "loss", seeds=plan.seeds)
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/study.db"
        study = Study(storage, plan.name, Sweep(points, None), settings, {}, only=set(left))
        records = work(study, plan, plan.folder, workers)
    return [f"{r.key}, seed {r.seed}: {r.facts['error']}" for r in records if "error" in r.facts]


def _show_targets(targets: dict[str, Table]) -> None:
    for name, table in targets.items():
        runs = _count_runs(name, table)
        print(f"{name:24} {table.title}")
        sizes = f" --size={'|'.join(table.sizes)}" if any(table.sizes) else ""
        print(f"{'':24} --data={'|'.join(table.data)}{sizes}")
        time = duration(60 * runs * table.minutes)
        print(f"{'':24} {runs} runs with {table.seeds} seeds, about {time} on {table.machine}")
    print("\nTimes are rough estimates for the first corpus and size, one run after another.")


def _count_runs(name: str, table: Table) -> int:
    plan = make_plan(name, table, "", "", Path(), 0, "")
    return len(plan.runs()) * plan.seeds


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _show_plan(plan: Plan, workers: int) -> None:
    """Print the runs that are left and an estimate of the total time."""
    runs, left = plan.runs(), plan.untrained()
    counts = _plural(len(runs), "model"), _plural(plan.seeds, "seed"), _plural(len(left), "run")
    print(f"{plan.name}: {', '.join(counts)} to train")
    for name, rows in runs.items():
        done = plan.seeds - sum(name == unfinished for unfinished, _ in left)
        print(f"{done} of {plan.seeds} trained: {name} ({'; '.join(row.name for row in rows)})")
    if not left:
        return
    sys.stdout.flush()
    _check_corpus(plan)
    print(TRIAL_MESSAGE, flush=True)
    row = runs[left[0][0]][0]
    found = estimate(plan.base(row), dict(row.changes), machine_shares(workers)[0])
    whole = duration(-(-len(left) // workers) * found.seconds)
    print(
        f"estimated time of one run of {found.steps:,} steps: {duration(found.seconds)}, with one "
        f"evaluation\nestimated time of all runs with --workers={workers}: {whole}, if all are "
        "like the first; scoring is not counted"
    )


if __name__ == "__main__":
    program.run(main, words=1)
