r"""Train a config with many different settings (the points of a sweep) and rank the results.

python sweep.py --config=configs/luong2015.py:data=dates \
    --sweep=configs/sweeps/luong2015_windows.py --workdir=sweeps/windows --workers=2

Run the same command again to resume an interrupted sweep. The ranking is written to
WORKDIR/leaderboard.md. docs/sweeps.md explains how to write a sweep file.
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags
from ml_collections import config_flags

import program
from configs.registry import TASKS, resolve
from errors import UserError
from sweeping.devices import machine_shares
from sweeping.estimate import TRIAL_MESSAGE, duration, estimate
from sweeping.packages import check_packages
from sweeping.points import Base, Point, Sweep, label, load_sweep
from sweeping.settings import PRUNERS, SAMPLERS, STORAGE_EXAMPLE, Settings
from sweeping.slurm import parse_settings, submit
from writing import writing

if TYPE_CHECKING:  # functions import these modules, so that --help needs no Optuna
    from sweeping.study import Study

program.define_config()
_SWEEP = program.define_required(
    "sweep", "Sweep file with the points, such as configs/sweeps/learning_rate.py."
)
_WORKDIR = program.define_required(
    "workdir", "Folder of the sweep's runs and results; it is created if missing."
)
_WORKERS = flags.DEFINE_integer(
    "workers", 1, "Number of training runs in parallel on this machine.", lower_bound=1
)
_SEEDS = flags.DEFINE_integer(
    "seeds", 1, "Number of runs per point, with seeds 0, 1, ...", lower_bound=1
)
_TRIALS = flags.DEFINE_integer(
    "trials",
    20,
    "Number of points to draw, if the sweep file defines a search space.",
    lower_bound=1,
)
_SAMPLER = flags.DEFINE_enum(
    "sampler", "tpe", SAMPLERS, "Method that draws points from a search space."
)
_PRUNER = flags.DEFINE_enum("pruner", "none", PRUNERS, "Method that stops unpromising runs early.")
_STORAGE = flags.DEFINE_string(
    "storage", "", f"Database through which several machines share a sweep: {STORAGE_EXAMPLE} with "
    "a password in ~/.pgpass, or env:NAME for a URL in the environment variable NAME. Default: a "
    "file in --workdir.",
)  # fmt: skip
_GRACE = flags.DEFINE_integer(
    "grace", 60, "Seconds without a heartbeat after which a run counts as dead and another worker "
    "continues it.",
    lower_bound=2,
)  # fmt: skip
_RETRY = flags.DEFINE_bool("retry_failed", False, "Retry all runs that failed with an error.")
_DRY_RUN = flags.DEFINE_bool(
    "dry_run",
    False,
    "List the points, train the first one for 40 steps to estimate the total time, and stop.",
)
_SLURM = flags.DEFINE_string(
    "slurm", "", "Submit --workers jobs as a SLURM array with these settings, such as "
    "partition=gpu,timeout_min=600,gpus_per_node=1.",
)  # fmt: skip


def main() -> None:
    """Check the sweep, then show its plan, submit it or run it."""
    check_packages("sweep.py")
    from sweeping.storage import file_url, has_password, parse_storage
    from sweeping.study import Study, example_point

    config, _ = program.checked_config()
    workdir = program.folder(_WORKDIR.value, "sweep")
    sweep, base = load_sweep(_SWEEP.value), _base()
    points = sweep.points or [example_point(sweep)]
    for point in points:
        base.config(point, 0)  # raises an error for an invalid point before the first run starts
    if _SLURM.value and not _STORAGE.value:
        raise UserError(
            f"--slurm needs --storage={STORAGE_EXAMPLE}, a database that all jobs can reach"
        )
    if _DRY_RUN.value:
        return _show_plan(sweep, base, points[0])
    try:
        workdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot create the folder --workdir={workdir}: {error.strerror}; use a folder that "
            "you can write to"
        ) from error
    settings = Settings(
        config.train.eval_metric, _SEEDS.value, _TRIALS.value, _SAMPLER.value, _PRUNER.value,
        _GRACE.value,
    )  # fmt: skip
    begun_with = {"sweep": Path(_SWEEP.value).name, "metric": settings.metric, **base._asdict()}
    url = parse_storage(_STORAGE.value) if _STORAGE.value else file_url(workdir / "study.db")
    if has_password(url) and not _STORAGE.value.startswith("env:"):
        logging.getLogger("alignax").warning(
            "--storage contains a password, which other users of this machine can see in its list "
            "of processes: store it in ~/.pgpass, or use --storage=env:NAME (docs/sweeps.md)"
        )
    # A database server can store several Optuna studies, so each is named after its sweep's folder.
    study = Study(url, workdir.name if _STORAGE.value else "sweep", sweep, settings, begun_with)
    if _RETRY.value:
        study.retry_failed()
    if _SLURM.value:
        return _submit(workdir)
    _work(study, base, workdir, config.task)


def _base() -> Base:
    """Return the config of the command line: its file, arguments and overrides."""
    given = program.given_config()
    arguments = {}
    for item in filter(None, given.arguments.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"--config: argument {item!r} must be written as name=value in a sweep")
        arguments[name] = value
    overrides = config_flags.get_override_values(flags.FLAGS["config"])
    if "seed" in overrides:
        raise UserError(
            "--config.seed cannot be set, because the sweep sets the seed of every run: use --seeds"
        )
    return Base(given.file, arguments, overrides)


def _show_plan(sweep: Sweep, base: Base, first: Point) -> None:
    """Print all points and an estimate of the total time."""
    points = sweep.points or []
    for point in points:
        print(label(point))
    count = len(points) or _TRIALS.value
    runs = count * _SEEDS.value
    drawn = "" if points else " drawn from a search space"
    print(f"{count} points{drawn}, {runs} runs\n{TRIAL_MESSAGE}", flush=True)
    found = estimate(base, first, machine_shares(_WORKERS.value)[0])
    whole = duration(-(-runs // _WORKERS.value) * found.seconds)
    print(
        f"estimated time of one run of {found.steps:,} steps: {duration(found.seconds)}, including "
        f"{duration(found.overhead)} to start and compile\n"
        f"estimated time of all runs with --workers={_WORKERS.value}: {whole}, if all runs take as "
        f"long as the first, which ran alone ({found.parameters:,} parameters)"
    )


def _submit(workdir: Path) -> None:
    """Submit SLURM jobs that run this program with the same flags."""
    from sweeping.storage import resolve_variable, storage_variable

    names = ("sweep", "workdir", "seeds", "trials", "sampler", "pruner", "grace")
    same = [f"--{name}={flags.FLAGS[name].value}" for name in names]
    with storage_variable(resolve_variable(_STORAGE.value)) as storage:
        command = [*program.given_config().flags, *same, f"--storage={storage}"]
        jobs = submit(command, _WORKERS.value, parse_settings(_SLURM.value), workdir / "slurm")
    print("submitted SLURM jobs " + ", ".join(str(job.job_id) for job in jobs))


def _work(study: "Study", base: Base, workdir: Path, task: str) -> None:
    """Train all runs of the sweep, then write and print the leaderboard."""
    from sweeping.leaderboard import compare_command, make_standings, write_leaderboard
    from sweeping.pictures import draw
    from sweeping.watch import work

    unit = resolve(TASKS[task].task).loss_unit
    try:
        work(study, base, workdir, _WORKERS.value, unit)
    finally:  # write the leaderboard even if the sweep was interrupted
        records = study.records()
        standings = make_standings(records, study.lower_is_better)
        with writing(workdir, "run the same command again"):
            text = write_leaderboard(standings, study.settings.metric, workdir, unit)
    with writing(workdir, "run the same command again"):
        draw(records, study.settings.metric, study.lower_is_better, workdir)
    print(text)
    best = standings[0]
    if best.scores:
        equal = sum((s.mean, s.loss) == (best.mean, best.loss) for s in standings[1:])
        which = f"one of {equal + 1} equally good points" if equal else "the best point"
        print(f"wrote {workdir}/leaderboard.md, .csv, .json and plots; to evaluate {which}:")
        print(f"python eval.py --workdir={shlex.quote(str(workdir / best.run / 'seed0'))}")
        if command := compare_command(standings, workdir):
            print(f"to compare all runs on one page:\n{command}")
    errors = [error for standing in standings for error in standing.errors]
    if errors:
        raise UserError(
            f"{len(errors)} of {len(records)} runs failed; the first error is: {errors[0]} (the "
            f"output of every run is in {workdir}/runs/POINT/seedN/output.txt; --retry_failed runs "
            "them again)"
        )


if __name__ == "__main__":
    program.run(main)
