"""Train and score every row of a paper's table, and compare the results with the published ones.

python reproduce.py --list
python reproduce.py luong2015.table4 --data=multi30k_de_en --size=small --seeds=3
python reproduce.py luong2015.table4 --decide --most_seeds=10
python reproduce.py jain2019.translation --keep

TARGET is a name that --list shows, such as luong2015.table4; without a target, the program lists
all targets. The results are written to WORKDIR/TARGET,DATA,SIZE/page.md. Complete runs and reports
are reused: run the same command again to continue after an interruption. Tables share runs that
have the same config.
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import logging
import shlex
import sys
import tempfile
from pathlib import Path

from absl import flags

import program
from data.files import corpus_folder_flag
from errors import UserError, suggest
from papers.deciding import check_decidable, open_rows, read_verdicts, schedule
from papers.kept import keep_rows
from papers.plan import Plan, make_plan
from papers.registry import find_targets
from papers.results import Result, committed
from papers.table import Table
from papers.verdicts import POWER, count_verdicts, decide_claims, verdict_lines
from sweeping.devices import machine_shares
from sweeping.estimate import TRIAL_MESSAGE, duration, estimate
from sweeping.packages import check_packages
from sweeping.points import Point, Sweep
from sweeping.settings import Settings
from writing import writing

# Modules that import JAX or Optuna are imported inside functions: program.run must configure the
# compilation cache before JAX is imported, and --help and --list should not need Optuna.

_DATA = flags.DEFINE_string(
    "data", "", "Corpus: one of the names that --list shows. Default: the first name."
)
_DATA_DIR = flags.DEFINE_string("data_dir", "", "Folder of the corpus, if it is not in corpora/.")
_SIZE = flags.DEFINE_string(
    "size", "", "Model size: one of the names that --list shows. Default: the first name."
)
_SEEDS = flags.DEFINE_integer(
    "seeds",
    0,
    "Number of runs per row, with seeds 0, 1, ...; 0: the default of the target.",
    lower_bound=0,
)
_WORKERS = flags.DEFINE_integer(
    "workers", 1, "Number of training runs in parallel on this machine.", lower_bound=1
)
_WORKDIR = flags.DEFINE_string("workdir", "results", "Folder of all runs, reports and pages.")
_LIST = flags.DEFINE_bool(
    "list", False, "List all targets, or the given one, with their corpora, model sizes, "
    "approximate times, claims and verdicts.",
)  # fmt: skip
_KEEP = flags.DEFINE_bool(
    "keep", False, "Keep the up-to-date results of the page in docs/results, and train only the "
    "other rows and, with --decide, more seeds.",
)  # fmt: skip
_DECIDE = flags.DEFINE_bool(
    "decide", False, "Train more seeds of the rows of undecided claims, up to --most_seeds."
)
_MOST_SEEDS = flags.DEFINE_integer(
    "most_seeds", 10, "With --decide: the largest number of runs per row.", lower_bound=2
)
_DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "List the runs that have not been trained, train the first one for 40 steps "
    "to estimate the total time, and stop.",
)  # fmt: skip


def main(target: str = "") -> None:
    """Reproduce one target, or list all targets."""
    targets = find_targets()
    if target and target not in targets:
        hint = suggest(target, targets)
        raise UserError(f"there is no target {target}: {hint}--list shows all targets")
    if _LIST.value or not target:
        return _show_targets({target: targets[target]} if target else targets)
    plan = make_plan(
        target, targets[target], _DATA.value, _SIZE.value, program.folder(_WORKDIR.value, "result"),
        _SEEDS.value, _DATA_DIR.value,
    )  # fmt: skip
    check_packages("reproduce.py")
    if _KEEP.value:
        plan = keep_rows(plan, committed(targets)[target], _SEEDS.value)
    if _DECIDE.value:
        check_decidable(plan, _MOST_SEEDS.value)
    elif _MOST_SEEDS.present:
        raise UserError("--most_seeds has no effect without --decide: add --decide")
    if _DRY_RUN.value:
        return _show_plan(plan, _WORKERS.value)
    if any(plan.rows_to_score()):
        _check_corpus(plan)
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot create the folder {plan.folder}: {error.strerror}; set --workdir to a folder "
            "that you can write to"
        ) from error
    command = shlex.join(["python", "reproduce.py", *sys.argv[1:]])
    if _DECIDE.value:
        page = decide(plan, _WORKERS.value, command, _MOST_SEEDS.value)
    else:
        page = reproduce(plan, _WORKERS.value, command)
    print(page.read_text("utf-8"))
    print(f"wrote {page}")


def _check_corpus(plan: Plan) -> None:
    """Prepare the corpus once before all runs; raise a UserError if it cannot be read."""
    from tasks.registry import make_task
    from training.initialization import initial_vocabularies

    config = plan.config(plan.table.rows[0])
    try:
        with corpus_folder_flag("--data_dir"):
            make_task(config, initial=initial_vocabularies(config, workdir=None))
    except UserError as error:
        raise UserError(f"cannot read the corpus {plan.data}: {error}") from error


def reproduce(plan: Plan, workers: int, command: str) -> Path:
    """Train all missing runs, write all missing reports and the page; return the page's path."""
    failed = _train(plan, workers)
    from papers.page import write_page
    from papers.scoring import read_reports, score_plan

    failed += score_plan(plan, workers)
    with writing(plan.page_folder, "run the same command again"):
        page = write_page(plan, read_reports(plan), command)
    if failed:
        raise UserError(
            f"{len(failed)} runs or reports failed and are missing in {page}; run the same command "
            f"again to retry them. The first error is: {failed[0]}"
        )
    return page


def decide(plan: Plan, workers: int, command: str, most_seeds: int) -> Path:
    """Add seeds of the rows of undecided claims until all are decided; return the page's path.

    The number of seeds doubles in each round. The confidence of the intervals is corrected for the
    number of rounds.
    """
    rounds = schedule(plan.seeds, most_seeds)
    plan, rows = plan._replace(rounds=max(len(rounds), plan.rounds)), set[str]()
    for number, seeds in enumerate(rounds, 1):
        more = {name: max(seeds, plan.more_seeds.get(name, 0)) for name in rows}
        plan = plan._replace(more_seeds=plan.more_seeds | more)
        reproduce(plan, workers, command)
        found = read_verdicts(plan)
        print(f"round {number} of {len(rounds)}, up to {seeds} seeds: {count_verdicts(found)}")
        print(verdict_lines(found, "  "), flush=True)
        rows = open_rows(plan.table, found)
        if not rows:
            break
    return plan.page_folder / "page.md"


def _train(plan: Plan, workers: int) -> list[str]:
    """Train all missing runs with the workers of a sweep; return the errors of failed runs.

    The Optuna study is discarded afterwards: the folder of each run records whether it is complete.
    """
    runs, untrained = plan.runs(), plan.untrained()
    if not untrained:
        return []
    from configs.registry import TASKS, resolve
    from sweeping.storage import file_url
    from sweeping.study import Study
    from sweeping.watch import work

    total = sum(max(map(plan.seeds_of, rows)) for rows in runs.values())
    most, logger = max((plan.seeds, *plan.more_seeds.values())), logging.getLogger("alignax")
    logger.info(f"{total - len(untrained)} of {total} runs are trained")
    for name, rows in runs.items():
        logger.info(f"{name}: {'; '.join(row.name for row in rows)}")
    points: list[Point] = [{"name": name} for name in runs]
    metrics = {plan.config(rows[0]).train.eval_metric for rows in runs.values()}
    settings = Settings(metrics.pop() if len(metrics) == 1 else "loss", seeds=most)
    with tempfile.TemporaryDirectory() as folder:
        storage = file_url(Path(folder) / "study.db")
        study = Study(storage, plan.name, Sweep(points, None), settings, {}, only=set(untrained))
        unit = resolve(TASKS[plan.config(plan.table.rows[0]).task].task).loss_unit
        records = work(study, plan, plan.folder, workers, unit)
    return [f"{r.key}, seed {r.seed}: {r.facts['error']}" for r in records if "error" in r.facts]


def _show_targets(targets: dict[str, Table]) -> None:
    """Print the name, title, corpora, sizes, approximate time and claims of every target."""
    results = committed(targets)
    for name, table in targets.items():
        runs = _count_runs(name, table)
        print(f"{name:24} {table.title}")
        sizes = f" --size={'|'.join(table.sizes)}" if any(table.sizes) else ""
        print(f"{'':24} --data={'|'.join(table.data)}{sizes}")
        time = duration(60 * runs * table.minutes)
        print(f"{'':24} {runs} runs with {table.seeds} seeds, about {time} on {table.machine}")
        print(_list_claims(table, results[name]), end="")
    print("\nTimes are rough estimates for the first corpus and size, with --workers=1.")
    print("Brackets: confidence interval over seeds, 95 % or more. Seeds: runs of the left and of")
    print(f"the right row. Needs: runs per row for a power of {100 * POWER:.0f} %.")
    print("To reproduce a target: python reproduce.py TARGET [--data=CORPUS] [--size=SIZE]")


def _list_claims(table: Table, results: list[Result]) -> str:
    """Return the verdicts on a table's claims, from each page in docs/results."""
    indent = " " * 25
    if not table.claims:
        return f"{indent}no claims that compare rows\n"
    if not results:
        lines = verdict_lines(decide_claims(table, {"rows": {}}), indent + "  ")
        return f"{indent}there is no page in docs/results\n{lines}"
    text = ""
    for result in results:
        found = result.verdicts()
        text += f"{indent}{result.content['data']} (docs/results/{result.page}): "
        text += f"{count_verdicts(found)}\n{verdict_lines(found, indent + '  ')}"
    return text


def _count_runs(name: str, table: Table) -> int:
    plan = make_plan(name, table, "", "", Path(), 0, "")
    return len(plan.runs()) * plan.seeds


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _show_plan(plan: Plan, workers: int) -> None:
    """Print the untrained runs and an estimate of the total time."""
    runs, untrained = plan.runs(), plan.untrained()
    counts = (
        _plural(len(runs), "model"),
        _plural(plan.seeds, "seed"),
        _plural(len(untrained), "run"),
    )
    kept = f" ({_plural(len(plan.kept), 'row')} kept)" if plan.kept else ""
    print(f"{plan.name}: {', '.join(counts)} to train{kept}")
    for name, rows in runs.items():
        done = plan.seeds - sum(name == unfinished for unfinished, _ in untrained)
        print(f"{done} of {plan.seeds} trained: {name} ({'; '.join(row.name for row in rows)})")
    if not untrained:
        return
    sys.stdout.flush()
    _check_corpus(plan)
    print(TRIAL_MESSAGE, flush=True)
    row = runs[untrained[0][0]][0]
    found = estimate(plan.base(row), dict(row.changes), machine_shares(workers)[0])
    whole = duration(-(-len(untrained) // workers) * found.seconds)
    print(
        f"estimated time of one run of {found.steps:,} steps: {duration(found.seconds)}\n"
        f"estimated time of all runs with --workers={workers}: {whole}, if all runs take as long "
        "as this one, which ran alone (scoring is not included)"
    )


if __name__ == "__main__":
    program.run(main, words=1)
