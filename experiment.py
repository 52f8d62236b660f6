"""Train a run from start to end with `train_run`, and score it with `score_run`.

`score_eval_sets` scores a run on test sets that are given as files.
"""

import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from configs.base import Config
from configs.registry import TASKS, resolve
from data.eval_sets import EvalSet
from errors import UserError
from evaluation.comparison import other_hypotheses
from evaluation.results import ReportOptions, report_folder
from evaluation.score_table import ScoreTable, write_score_table
from evaluation.translation import report_ensemble
from tasks.registry import make_task
from training.devices import check_rows, fit_rows
from training.hosts import is_first_process, raise_on_all_hosts
from training.initialization import initial_vocabularies, load_initial
from training.loop import train
from training.model_summary import summarize
from training.restore import RestoredRun, restore_run, restore_runs
from training.vocabularies import keep_initial, keep_vocabularies
from training.workdir import VOCABULARY_FOLDER, check_workdir, open_workdir
from writing import write_text, writing

_MORE_SPACE = "run the same command again, or set TMPDIR to a folder with more space"


def train_run(config: Config, workdir: Path, mesh: Mesh, overrides: Sequence[str] = ()) -> None:
    """Train a run to the end, starting from the latest checkpoint in `workdir` if there is one."""
    with raise_on_all_hosts():
        check_workdir(workdir, config)
        check_rows(mesh, config)
        vocabularies = initial_vocabularies(config, workdir)
        task = make_task(config, initial=vocabularies)
    # Load the parameters of another run before the workdir is written: if they do not fit, the
    # same --workdir can be used with another config.
    initial = load_initial(task, config, workdir, mesh)
    with open_workdir(workdir, config, list(overrides), task.data_name), writing(workdir):
        with raise_on_all_hosts():
            if is_first_process():
                keep_initial(vocabularies, workdir / VOCABULARY_FOLDER)
                keep_vocabularies(task.prepared.folder, workdir / VOCABULARY_FOLDER)
                if initial:
                    write_text(workdir / "initialized.md", initial.report)
        evaluate = _evaluation(config).make_evaluate(task, mesh)
        apply = functools.partial(initial.apply, mesh=mesh) if initial else None
        train(task, evaluate, config, workdir, mesh, apply)


def summarize_run(config: Config, mesh: Mesh) -> str:
    """Describe the model of a config, without training; the corpus is prepared if necessary."""
    with raise_on_all_hosts():
        check_rows(mesh, config)
        task = make_task(config, initial=initial_vocabularies(config, workdir=None))
    return summarize(task, config, mesh)


def score_run(
    config: Config, workdir: Path, mesh: Mesh, checkpoint: str, options: ReportOptions
) -> None:
    """Score a split with one checkpoint or the mean of several checkpoints; write the report."""
    run = restore_run(config, workdir, mesh, checkpoint)
    reverse = restore_runs(options.link_settings.reverse, mesh, [checkpoint], "--reverse_workdir")
    _report(config, run, mesh, options._replace(reverse=reverse))


def score_eval_sets(
    config: Config,
    workdir: Path,
    mesh: Mesh,
    checkpoint: str,
    sets: Sequence[EvalSet],
    options: ReportOptions,
) -> ScoreTable:
    """Score test sets that are given as files, with one checkpoint or the mean of several.

    Only the vocabularies and the checkpoints of the run are read, not its corpus. The folder of
    `options` gets one folder per test set, with its report, and the table of all scores. `options`
    needs no split. Return the content of tests.json. All files are read before anything is written.
    """
    files = {test.name: test.digests() for test in sets}
    run = restore_run(fit_rows(mesh, config), workdir, mesh, checkpoint, corpus=False)
    reverse = restore_runs(options.link_settings.reverse, mesh, [checkpoint], "--reverse_workdir")
    with tempfile.TemporaryDirectory(prefix="alignax-") as name:
        folder = Path(name)
        with writing(folder, _MORE_SPACE):
            run.task.use_eval_sets(sets, folder)
        reports = []
        for test in sets:
            target = options.folder / test.name
            _check_no_links(target, workdir)
            report = options._replace(split=test.name, folder=target, reverse=reverse)
            if options.against:
                other = report_folder(options.against, test.name, alone=len(sets) == 1)
                other_hypotheses(run.task, test.name, other)  # raises an error before the decoding
                report = report._replace(against=other)
            reports.append(report)
        for report in reports:
            print(f"Test set {report.split}\n")
            _report(config, run, mesh, report)
            print()
    with writing(options.folder, "run the same command again"):
        return write_score_table(options.folder, workdir, files)


def _check_no_links(folder: Path, workdir: Path) -> None:
    """Raise UserError if a symbolic link in a workdir, which is not trusted, leads to `folder`."""
    for path in (folder, *folder.parents):
        if path != workdir and path.is_relative_to(workdir) and path.is_symlink():
            raise UserError(
                f"{path} is a symbolic link in a workdir, so the report would be written to "
                f"{path.resolve()}: set --out to the folder that you want"
            )


def _report(config: Config, run: RestoredRun, mesh: Mesh, options: ReportOptions) -> None:
    """Score a split of the run's task, and write the report."""
    with writing(options.folder, "run the same command again"):
        options.folder.mkdir(parents=True, exist_ok=True)
        options = options._replace(checkpoints=run.steps)
        _evaluation(config).report(run.task, run.params, mesh, options)


def score_ensemble(
    config: Config, workdirs: Sequence[Path], mesh: Mesh, checkpoint: str, options: ReportOptions
) -> None:
    """Score a split with an ensemble of translation runs that differ only in their seeds."""
    runs = [restore_run(config, workdir, mesh, checkpoint) for workdir in workdirs]
    reverse = restore_runs(options.link_settings.reverse, mesh, [checkpoint], "--reverse_workdir")
    with writing(options.folder, "run the same command again"):
        options.folder.mkdir(parents=True, exist_ok=True)
        options = options._replace(checkpoints=[run.steps for run in runs], reverse=reverse)
        report_ensemble([run.task for run in runs], [run.params for run in runs], mesh, options)


def _evaluation(config: Config) -> Any:
    """Return the module that evaluates the config's task."""
    return resolve(TASKS[config.task].evaluation)
