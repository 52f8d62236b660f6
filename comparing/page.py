"""Write the comparison of runs as a single HTML page that needs no network access."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from comparing.comparability import Comparability, comparability
from comparing.curves import learning_curves
from comparing.examples import compared_examples
from comparing.runs import ComparedRun, check_comparable, load_run
from comparing.scores import (
    cost_table,
    describe_tests,
    faithfulness_sample,
    faithfulness_table,
    score_table,
    validation_report,
)
from comparing.systems import System, differences, group_runs, run_names
from configs.registry import TASKS, resolve
from errors import UserError, suggest
from evaluation.page import write_html
from terminal import clean

_TEMPLATE = Path(__file__).parent / "page.html"
_SCRIPTS = ("scores.js", "curves.js", "examples.js", "page.js")
MOST_PROBLEMS = 5  # messages about runs that are shown


def write_comparison(folders: Sequence[Path], split: str, sentences: int, path: Path) -> list[str]:
    """Compare runs on a split or test set; write the page to `path`.

    The page has at most `sentences` examples. Return messages about what is missing on it.
    """
    runs = [load_run(folder, split) for folder in folders]
    check_comparable(runs)
    validation = not any(run.report for run in runs)
    if validation and split not in ("valid", "test"):
        reports = (path.parent.name for f in folders for path in f.glob("eval/*/scores.json"))
        known = sorted({"valid", "test", *reports})
        raise UserError(
            f"no run has a report of {split}: {suggest(split, known)}set --split to "
            f"{', '.join(known[:-1])} or {known[-1]}, or score the runs on it with eval.py "
            f"--test={split}=FILES"
        )
    if validation:
        runs = [run._replace(report=validation_report(run)) for run in runs]
    systems = group_runs(runs)
    problems = [problem for run in runs for problem in run.problems]
    notes = _shortened([*_repetitions(systems), *problems, *_faithfulness_problems(runs)])
    comparable = comparability(runs, split)
    notes = [*comparable.notes, *notes]
    content = _content(systems, comparable, split, sentences)
    content |= {"notes": notes, "validation": validation}
    write_html(path, _TEMPLATE, _SCRIPTS, _cleaned(content))
    return notes


def _repetitions(systems: Sequence[System]) -> list[str]:
    """Return messages about seeds that were trained more than once with the same config."""
    return [
        f"{system.name} repeats seeds of {system.repeats} ({system.seeds}) with the same config, "
        "so its runs are shown as a separate system, not as further seeds"
        for system in systems
        if system.repeats
    ]


def _faithfulness_problems(runs: Sequence[ComparedRun]) -> list[str]:
    """Return messages if faithfulness was measured in some runs only, or with unequal samples."""
    counts = [(run.report or {}).get("faithfulness", {}).get("examples", 0) for run in runs]
    if len(set(counts)) < 2:
        return []
    problems = [
        f"The faithfulness of {run.folder} was not measured: add --faithfulness to its eval.py "
        "command"
        for run, count in zip(runs, counts, strict=True)
        if not count
    ]
    sizes = sorted({int(count) for count in counts if count})
    if len(sizes) > 1:
        problems.append(
            f"The faithfulness of some runs was measured with {sizes[0]} examples and of others "
            f"with {sizes[-1]}: use the same --faithfulness_examples for all runs"
        )
    return problems


def _shortened(problems: list[str]) -> list[str]:
    """Return at most MOST_PROBLEMS messages, and how many there are in addition."""
    more = len(problems) - MOST_PROBLEMS
    if more <= 0:
        return problems
    return [*problems[:MOST_PROBLEMS], f"There are {more} more messages like these."]


def _content(
    systems: Sequence[System], comparable: Comparability, split: str, sentences: int
) -> dict[str, Any]:
    """Return the content of the page, except its notes."""
    runs = [run for system in systems for run in system.runs]
    task = runs[0].config.task
    examples = []
    if comparable.examples:
        examples = compared_examples(systems, sentences, task == "translation", task == "labelling")
    scores = score_table(systems, comparable)
    unit = resolve(TASKS[task].task).loss_unit
    terms = next((run.terms for run in runs if run.terms), {})
    return {
        "title": f"Comparison of {len(runs)} runs",
        "about": _about(systems, runs, split),
        "task": task,
        "terms": terms,
        "systems": [_system(system) for system in systems],
        "runs": [
            {"name": name, "system": i, "seed": str(run.fields["seed"])}
            for name, (i, run) in zip(run_names(runs), _numbered(systems), strict=True)
        ],
        "differences": [difference._asdict() for difference in differences(systems)],
        "scores": scores,
        "tests": describe_tests(scores),
        "faithfulness": faithfulness_table(systems, comparable),
        "faithfulness_sample": faithfulness_sample(systems),
        "curves": learning_curves(runs),
        "cost": cost_table(systems, unit),
        "examples": examples,
    }


def _numbered(systems: Sequence[System]) -> list[tuple[int, ComparedRun]]:
    """Return all runs with the indices of their systems."""
    return [(i, run) for i, system in enumerate(systems) for run in system.runs]


def _system(system: System) -> dict[str, str]:
    return {"name": system.name, "seeds": system.seeds}


def _about(systems: Sequence[System], runs: Sequence[ComparedRun], split: str) -> str:
    """Describe the comparison in one line."""
    count = max((len(run.examples) for run in runs), default=0)
    parts = [
        runs[0].config.task,
        f"{len(systems)} {'system' if len(systems) == 1 else 'systems'}",
        f"report of {split}",
        *([f"{count:,} examples"] if count else []),
    ]
    return " · ".join(parts)


def _cleaned(value: Any) -> Any:
    """Remove control characters from all texts of the page."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): _cleaned(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(x) for x in value]
    return value
