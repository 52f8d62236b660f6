"""The table of several test sets: tests.md and tests.json of eval.py --test."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data.eval_sets import SCORE_TABLE_FILES
from evaluation.metrics import metric_of
from markup import code, escape, table
from reading import read_json
from writing import write_json, write_text

ScoreTable = dict[str, Any]  # the content of tests.json
_REPORT = {
    "checkpoints": list, "scores": {str: float | None}, "signatures": {str: str},
    "sentences?": int, "examples?": int, "decode?": dict,
}  # fmt: skip


def write_score_table(
    folder: Path, workdir: Path, files: Mapping[str, Sequence[Mapping[str, str]]]
) -> ScoreTable:
    """Collect the reports in `folder` in one table; write it to tests.md and tests.json.

    `files` maps the name of each test set, which is the name of its report, to the paths and the
    digests of its files. Return the content of tests.json.
    """
    remedy = "run the same command again"
    reports = {name: read_json(folder / name / "scores.json", _REPORT, remedy) for name in files}
    first = next(iter(reports.values()))
    summary = {
        "run": str(workdir), "checkpoints": first["checkpoints"], "decode": first.get("decode"),
        "tests": {
            name: {
                "files": list(files[name]),
                "examples": report.get("sentences") or report.get("examples"),
                "scores": report["scores"], "signatures": report["signatures"],
            }
            for name, report in reports.items()
        },
    }  # fmt: skip
    page, values = (folder / name for name in SCORE_TABLE_FILES)
    write_json(values, summary)
    write_text(page, _page(summary))
    return summary


def _page(summary: ScoreTable) -> str:
    head, rows = _cells(summary)
    details = [f"checkpoint {', '.join(map(str, summary['checkpoints']))}"]
    if summary["decode"]:
        details.append(f"beam {summary['decode']['beam']}")
    notes = "".join(f"- {escape(note)}\n" for note in _notes(summary))
    return (
        f"# Scores of test sets\n\nRun {code(summary['run'])}, {', '.join(details)}.\n\n"
        f"{table(head, rows)}\n{notes}"
    )


def plain_table(summary: ScoreTable) -> str:
    """Return the table as text for a terminal, with aligned columns."""
    head, rows = _cells(summary)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in (head, *rows)
    ]
    return "\n".join(lines)


def _cells(summary: ScoreTable) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table: one row per test set, one column per score."""
    tests, keys = summary["tests"], _keys(summary)
    metrics = [metric_of(key) for key in keys]
    head = ["Test set", "Examples", *(f"{m.name}{' (%)' * (m.unit == '%')}" for m in metrics)]
    rows = []
    for name, test in tests.items():
        values = [test["scores"].get(key) for key in keys]
        texts = [
            "n/a" if value is None else metric.text(value)
            for metric, value in zip(metrics, values, strict=True)
        ]
        rows.append([name, f"{test['examples']:,}", *texts])
    return head, rows


def _keys(summary: ScoreTable) -> list[str]:
    """Return the keys of all scores."""
    return list(dict.fromkeys(key for test in summary["tests"].values() for key in test["scores"]))


def _notes(summary: ScoreTable) -> Sequence[str]:
    """Return one line per score: unit, direction, and signature or description.

    If test sets have different signatures, for example with different numbers of references, the
    line contains the signature of each test set.
    """
    notes = []
    for key in _keys(summary):
        metric = metric_of(key)
        given = {
            name: test["signatures"].get(key, metric.note)
            for name, test in summary["tests"].items()
        }
        texts = {*given.values()}
        note = "; ".join(f"{name} {text}" for name, text in given.items())
        notes.append(
            ": ".join(filter(None, (metric.label, note if len(texts) > 1 else texts.pop())))
        )
    return notes
