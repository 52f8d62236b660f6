"""Read the runs that are compared: configs, logs and reports.

Nothing in a workdir chooses which files are read: all paths are those of the files that train.py
and eval.py write. This module does not import JAX.
"""

import logging
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configs.base import Config
from errors import UserError
from evaluation.examples import EXAMPLES_FILE, ScoredExample, read_examples
from evaluation.page import read_page_content
from papers.plan import Facts, make_facts, read_starts
from reading import matching, read_json, reading
from sweeping.log import Entry, read_complete_log
from training.workdir import flat, load_config

logger = logging.getLogger("alignax")
AGAIN = "score the run again with eval.py"
RESTORE_IT = "restore the file from a backup"
MOST_NAMES = 3  # number of folders that a message names
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
    log: list[Entry]
    facts: Facts
    report: dict[str, Any] | None  # scores.json
    examples: list[ScoredExample]  # of the whole split
    shown: list[ShownExample]  # the first examples of the split
    terms: dict[str, str]  # the labels of report.html, such as "source"
    problems: list[str]  # what is missing, and what to do about it


def parse_runs(text: str) -> list[Path]:
    """Return the folders of runs that --runs lists, separated by commas.

    An entry may be a pattern such as sweeps/a/runs/*/seed0. The names of folders may contain
    commas themselves: an entry ends at the first comma at which it names a run. A run that is
    named more than once counts once, and a warning says so.
    """
    parts = [part for part in text.split(",") if part]
    found: dict[Path, Path] = {}
    repeated: list[str] = []
    first = 0
    while first < len(parts):
        for end in range(first + 1, len(parts) + 1):
            folders = _runs(",".join(parts[first:end]))
            if folders:
                break
        else:
            raise _no_run(parts[first])
        for folder in folders:
            if found.setdefault(folder.resolve(), folder) is not folder:
                repeated.append(str(folder))
        first = end
    if repeated:
        logger.warning("--runs repeats %s: every run counts once", _some(repeated))
    if len(found) < 2:
        named = "".join(map(str, found.values())) or "no run"
        raise UserError(
            f"--runs needs at least two runs, but it names {named}: list different folders, such "
            "as --runs=runs/a,runs/b, or a pattern of folders with a config.json"
        )
    return list(found.values())


def _no_run(entry: str) -> UserError:
    """Return the error for an entry of --runs that names no run."""
    if not _is_pattern(entry):
        return UserError(
            f"--runs: {entry} is not the folder of a run, because it has no config.json: list "
            "folders that train.py created, separated by commas"
        )
    matches = sorted(map(str, _matches(entry)))
    if not matches:
        return UserError(
            f"--runs: the pattern {entry} matches no file or folder: correct it, or list folders "
            "that train.py created, separated by commas"
        )
    return UserError(
        f"--runs: the pattern {entry} matches {_some(matches)}, but no "
        "run, because none of them is a folder with a config.json: match the folders that train.py "
        f"created, which may be one level deeper, as in {entry.rstrip('/')}/*"
    )


def _some(names: Sequence[str]) -> str:
    """Return the first names as a text."""
    more = ", …" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _runs(entry: str) -> list[Path]:
    """Return the runs that an entry of --runs names; [] if there are none."""
    path = Path(entry)
    if (path / "config.json").exists():
        return [path]
    if not _is_pattern(entry):
        return []
    return sorted(folder for folder in _matches(entry) if (folder / "config.json").exists())


def _is_pattern(entry: str) -> bool:
    return re.search(r"[*?\[]", entry) is not None


def _matches(entry: str) -> Iterator[Path]:
    """Return the files and folders that a pattern matches."""
    path = Path(entry)
    if any("**" in part and part != "**" for part in path.parts):
        raise UserError(
            f"--runs: the pattern {entry} has ** next to other characters: use *, or ** as the "
            "whole name of a folder, such as runs/**/seed0"
        )
    root, pattern = (Path("/"), entry.lstrip("/")) if path.is_absolute() else (Path(), entry)
    return root.glob(pattern.rstrip("/"))


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
    run = ComparedRun(
        folder, config, flat(config), starts[0].get("data", "") if starts else "", log,
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
