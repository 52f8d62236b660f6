"""Read the runs that are compared: configs, logs and reports.

Nothing in a workdir chooses which files are read: all paths are those of the files that train.py
and eval.py write. This module does not import JAX.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configs.base import Config
from errors import UserError
from evaluation.examples import EXAMPLES_FILE, ScoredExample, read_examples
from evaluation.page import read_page_content
from reading import DamagedFile, matching, read_json, reading
from training.finding import find_workdirs
from training.records import Entry, Facts, make_facts, read_complete_log, read_starts
from training.vocabularies import vocabulary_digests
from training.workdir import VOCABULARY_FOLDER, flat, load_config

AGAIN = "score the run again with eval.py"
RESTORE_IT = "restore the file from a backup"
_REPORT = {
    "scores": {str: float | None}, "signatures?": {str: str}, "checkpoints?": list,
    "decode?": dict, "faithfulness?": {str: float | None},
}  # fmt: skip
_HYPOTHESIS = {"text": str, "tokens": [str], "attention": dict, "gold?": [str]}
_PAGE = {
    "terms": {str: str},
    "examples": [{"text": str, "source": [str], "hypotheses": [_HYPOTHESIS]}],
}


class ShownExample(NamedTuple):
    """The prediction of one example on report.html, with its attention weights."""

    text: str
    source: list[str]  # tokens
    target: list[str]  # tokens, or names of rows of attention weights, or predicted labels
    gold: list[str] | None  # labelling: one gold label per word
    weights: np.ndarray | None  # attention weights [target, source]


class ComparedRun(NamedTuple):
    """What compare.py knows about a run; `corpus` and everything below it may be missing."""

    folder: Path
    config: Config
    fields: dict[str, object]  # the config as a flat dictionary
    corpus: str  # identifies the content of the corpus
    vocabularies: dict[str, str]  # SHA-256 of each vocabulary, by file name
    log: list[Entry]
    facts: Facts
    report: dict[str, Any] | None  # scores.json
    examples: list[ScoredExample]  # of the whole split
    shown: list[ShownExample]  # the first examples of the split
    terms: dict[str, str]  # the labels of report.html, such as "source"
    problems: list[str]  # what is missing, and what to do about it


def parse_runs(text: str) -> list[Path]:
    """Return the folders of runs that --runs lists (see `find_workdirs`), which must be several."""
    found = find_workdirs(text, "--runs")
    if len(found) < 2:
        named = "".join(map(str, found)) or "no run"
        raise UserError(
            f"--runs needs at least two runs, but it names {named}: list different folders, such "
            "as --runs=runs/a,runs/b, or a pattern of folders with a config.json"
        )
    return found


def load_run(folder: Path, split: str) -> ComparedRun:
    """Read a run and its report of a split or a test set."""
    config = load_config(folder, "--runs")
    log, starts, problems = [], [], []
    if (folder / "log.jsonl").exists():
        log = read_complete_log(folder / "log.jsonl")
    else:
        problems.append(
            f"{folder} has no log.jsonl, so its curves and costs are missing: {RESTORE_IT}"
        )
    if (folder / "run.json").exists():
        starts = read_starts(folder)
    else:
        problems.append(
            f"{folder} has no run.json, so its corpus, device and commit are unknown: {RESTORE_IT}"
        )
    fields = flat(config)
    digests = {}
    try:
        digests = vocabulary_digests(folder / VOCABULARY_FOLDER)
    except DamagedFile as error:
        problems.append(str(error))
    run = ComparedRun(
        folder, config, fields, starts[0].get("data", "") if starts else "", digests, log,
        make_facts(log, starts), report=None, examples=[], shown=[], terms={}, problems=problems,
    )  # fmt: skip
    return _with_report(run, _report_folder(folder, split), split)


def _report_folder(run: Path, split: str) -> Path:
    """Return the folder of a run's report: that of eval.py, or the first one of reproduce.py."""
    folder = run / "eval" / split
    if split != "test" or folder.exists():
        return folder
    reports = sorted(path.parent for path in run.glob("reports/*/scores.json"))
    return reports[0] if reports else folder


def _with_report(run: ComparedRun, folder: Path, split: str) -> ComparedRun:
    """Add the report in `folder` to a run, or the command that writes what is missing."""
    test = f"--split={split}" if split in ("valid", "test") else f"--test={split}=FILES"
    command = f"python eval.py {shlex.quote(f'--workdir={run.folder}')} {test}"
    if not (folder / "scores.json").exists():
        problem = f"{run.folder} has no report of {split}, so its scores and examples are missing"
        return run._replace(problems=[*run.problems, f"{problem}: {command}"])
    report = read_json(folder / "scores.json", _REPORT, AGAIN)
    examples, shown, terms = [], [], {}
    problems = [*run.problems]
    if (folder / EXAMPLES_FILE).exists():
        examples = read_examples(folder, AGAIN)
    elif run.config.task != "labelling":
        problems.append(f"{folder} has no {EXAMPLES_FILE}, so its examples are missing: {command}")
    if (folder / "report.html").exists():
        terms, shown = read_report_examples(folder / "report.html")
    elif examples:
        problems.append(
            f"{folder} has no report.html, so its attention weights are missing: {command}"
        )
    return run._replace(
        report=report, examples=examples, shown=shown, terms=terms, problems=problems
    )


def read_report_examples(path: Path) -> tuple[dict[str, str], list[ShownExample]]:
    """Return the labels of a report page, and its examples with their best hypotheses."""
    content = read_page_content(path, AGAIN)
    with reading(path, AGAIN):
        matching(content, _PAGE)
        shown = [_shown(example) for example in content["examples"] if example["hypotheses"]]
    return content["terms"], shown


def _shown(example: dict[str, Any]) -> ShownExample:
    """Return an example of a report page; raise ValueError if its weights have another shape."""
    best, source = example["hypotheses"][0], example["source"]
    weights = None
    rows = best["attention"].get("attention")
    if rows:
        try:
            weights = np.nan_to_num(np.array(rows, np.float32))  # null becomes NaN
        except (TypeError, OverflowError):
            raise ValueError("its attention weights are not numbers") from None
        if weights.shape != (len(best["tokens"]), len(source)):
            raise ValueError("its attention weights do not fit its tokens")
    gold = best.get("gold")
    if gold is not None and not len(gold) == len(best["tokens"]) == len(source):
        raise ValueError("its labels do not fit its words")
    return ShownExample(example["text"], source, best["tokens"], gold, weights)


def check_comparable(runs: Sequence[ComparedRun]) -> None:
    """Raise UserError if the runs have different tasks."""
    first = runs[0]
    for run in runs:
        if run.config.task != first.config.task:
            raise UserError(
                f"{first.folder} is a {first.config.task} run, but {run.folder} is a "
                f"{run.config.task} run: compare runs of one task"
            )
