r"""Trains a config at many points of a sweep, and says which is best; run again, goes on.

python sweep.py --config=configs/luong2015.py:data=dates \
    --sweep=configs/sweeps/luong2015_windows.py --workdir=sweeps/windows --workers=2
"""

import sys
from pathlib import Path

from absl import flags
from ml_collections import config_flags

import program
from errors import UserError
from sweeping.devices import deal
from sweeping.estimate import TRYING, duration, estimate
from sweeping.leaderboard import rows_of, write_leaderboard
from sweeping.pictures import draw
from sweeping.points import Base, Point, Sweep, label, load_sweep
from sweeping.slurm import parse_settings, submit
from sweeping.study import PRUNERS, SAMPLERS, Settings, Study, example
from sweeping.watch import work

program.define_config()
_SWEEP = flags.DEFINE_string("sweep", "", "File of the sweep, as configs/sweeps/learning_rate.py.")
_WORKDIR = flags.DEFINE_string("workdir", "", "Folder of the sweep, made if it is not there.")
_WORKERS = flags.DEFINE_integer("workers", 1, "Runs side by side on this machine.", lower_bound=1)
_SEEDS = flags.DEFINE_integer("seeds", 1, "Runs of every point: seeds 0, 1, ...", lower_bound=1)
_TRIALS = flags.DEFINE_integer("trials", 20, "Points to draw from a space.", lower_bound=1)
_SAMPLER = flags.DEFINE_enum("sampler", "tpe", list(SAMPLERS), "How a space is drawn from.")
_PRUNER = flags.DEFINE_enum("pruner", "none", list(PRUNERS), "Which runs are given up early.")
_STORAGE = flags.DEFINE_string(
    "storage", "", "postgresql://user:password@host/database, for machines to share the work; by "
    "default a file in the workdir.",
)  # fmt: skip
_GRACE = flags.DEFINE_integer(
    "grace", 60, "Seconds without a sign of life after which a run is given to another worker.",
    lower_bound=2,
)  # fmt: skip
_RETRY = flags.DEFINE_bool("retry_failed", False, "Try those again that failed by an error.")
_DRY_RUN = flags.DEFINE_bool(
    "dry_run",
    False,
    "Only show the points, and train the first for 40 steps to say how long they may take.",
)
_SLURM = flags.DEFINE_string(
    "slurm", "", "Run the workers as a SLURM array with these settings, as "
    "partition=gpu,timeout_min=600,gpus_per_node=1.",
)  # fmt: skip


def main() -> None:
    config, _ = program.checked_config()
    workdir = program.folder(_WORKDIR.value, "sweep")
    sweep, base = load_sweep(_SWEEP.value), _base()
    points = sweep.points or [example(sweep)]
    for point in points:
        base.config(point, 0)  # a slip in one should not wait for its turn
    if _SLURM.value and not _STORAGE.value:
        raise UserError("--slurm wants --storage=postgresql://...: jobs share the work by it")
    if _DRY_RUN.value:
        return _show_plan(sweep, base, points[0])
    try:
        workdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {workdir}: {error.strerror}") from error
    settings = Settings(
        config.train.eval_metric, _SEEDS.value, _TRIALS.value, _SAMPLER.value, _PRUNER.value,
        _GRACE.value,
    )  # fmt: skip
    begun_with = {"sweep": Path(_SWEEP.value).name, "metric": settings.metric, **base._asdict()}
    url = _STORAGE.value or f"sqlite:///{workdir / 'study.db'}"
    # In its own file a sweep needs no name; on a server it is called by its folder's.
    study = Study(url, workdir.name if _STORAGE.value else "sweep", sweep, settings, begun_with)
    if _RETRY.value:
        study.retry_failed()
    if _SLURM.value:
        return _submit(workdir)
    _work(study, base, workdir)


def _base() -> Base:
    """The config of the command line, in its parts."""
    file, arguments = program.config_file(sys.argv)
    given = dict(item.split("=", 1) for item in filter(None, arguments.split(",")))
    overrides = config_flags.get_override_values(flags.FLAGS["config"])
    if "seed" in overrides:
        raise UserError("--config.seed is the sweep's to set: --seeds says how many there are")
    return Base(file, given, overrides)


def _show_plan(sweep: Sweep, base: Base, first: Point) -> None:
    points = sweep.points or []
    for point in points:
        print(label(point))
    count = len(points) or _TRIALS.value
    runs = count * _SEEDS.value
    drawn = "" if points else ", drawn one by one"
    print(f"{count} points{drawn}, {runs} runs; {TRYING}", flush=True)
    found = estimate(base, first, deal(_WORKERS.value)[0])
    whole = duration(-(-runs // _WORKERS.value) * found.seconds)
    print(
        f"a run of {found.steps:,} steps may take {duration(found.seconds)} here "
        f"({duration(found.around)} of them to start, compile and evaluate once; later evaluations "
        f"are not counted), all with --workers={_WORKERS.value} {whole}, were all like the first "
        f"({found.parameters:,} parameters)"
    )


def _submit(workdir: Path) -> None:
    names = ("sweep", "workdir", "seeds", "trials", "sampler", "pruner", "storage", "grace")
    same = [f"--{name}={flags.FLAGS[name].value}" for name in names]
    command = [*program.config_arguments(sys.argv), *same]
    jobs = submit(command, _WORKERS.value, parse_settings(_SLURM.value), workdir / "slurm")
    print("submitted " + ", ".join(str(job.job_id) for job in jobs))


def _work(study: Study, base: Base, workdir: Path) -> None:
    try:
        work(study, base, workdir, _WORKERS.value)
    finally:  # as far as it has come
        records = study.records()
        rows = rows_of(records, study.lower_is_better)
        text = write_leaderboard(rows, study.settings.metric, workdir)
    draw(records, study.settings.metric, study.lower_is_better, workdir)
    print(text)
    if rows[0].scores:
        first = f"{workdir / rows[0].run / 'seed0'}"
        equal = sum(row.mean == rows[0].mean for row in rows[1:])
        which = f"one of {equal + 1} that are equally good" if equal else "the best"
        print(f"{workdir}/leaderboard.md, .csv, .json and pictures are written; {which}:")
        print(f"python eval.py --workdir='{first}'")
    errors = [error for row in rows for error in row.errors]
    if errors:
        raise UserError(
            f"{len(errors)} of {len(records)} runs failed, the first with: {errors[0]} (all that "
            f"it said is in its output.txt in {workdir}/runs; --retry_failed tries again)"
        )


if __name__ == "__main__":
    program.run(main)
