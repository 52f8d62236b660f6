"""A sweep's results as Markdown, CSV and JSON: a row a point, the best first."""

import csv
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from optuna.trial import TrialState

from evaluation.tables import table
from sweeping.points import Point, changes, label, run_name, short_names
from sweeping.study import Record


class Row(NamedTuple):
    """A point over its seeds."""

    point: Point
    scores: list[float]  # the best on the dev split, of the runs that are complete
    pruned: list[float]  # the last, of those that were given up
    errors: list[str]  # of those that failed
    waiting: int  # how many are not over
    parameters: int | None
    count: float | None  # tokens, or what else losses are means over, a complete run
    seconds: float | None  # the same, over all its attempts
    run: str  # the folder of its runs, in that of the sweep

    @property
    def mean(self) -> float | None:
        return statistics.mean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


def rows_of(records: Iterable[Record], lower_is_better: bool) -> list[Row]:
    """First points whose runs came to their end, then those some of whose were pruned or failed,
    since the others may have had luck; then those that were pruned, and the rest."""
    by_key: dict[str, list[Record]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    sign = 1 if lower_is_better else -1

    def rank(row: Row) -> tuple[int, float]:
        if row.scores:
            return bool(row.pruned or row.errors), sign * statistics.mean(row.scores)
        return (2, sign * statistics.mean(row.pruned)) if row.pruned else (3, 0.0)

    return sorted((_row(own) for own in by_key.values()), key=rank)


def _row(own: Sequence[Record]) -> Row:
    def of(state: TrialState) -> list[Record]:
        return [record for record in own if record.state == state]

    def mean(name: str) -> float | None:
        known = [r.facts[name] for r in of(TrialState.COMPLETE) if name in r.facts]
        return statistics.mean(known) if known else None

    parameters = [r.facts["parameters"] for r in own if "parameters" in r.facts]
    return Row(
        point=own[0].point,
        scores=[r.score for r in of(TrialState.COMPLETE) if r.score is not None],
        pruned=[r.score for r in of(TrialState.PRUNED) if r.score is not None],
        errors=[r.facts["error"] for r in of(TrialState.FAIL) if "error" in r.facts],
        waiting=sum(not r.over for r in own),
        parameters=parameters[0] if parameters else None,
        count=mean("count"),
        seconds=mean("seconds"),
        run=f"runs/{run_name(own[0].key, own[0].point)}",
    )  # fmt: skip


def write_leaderboard(rows: Sequence[Row], metric: str, folder: Path) -> str:
    """leaderboard.md, .csv and .json; the Markdown is returned."""
    fields = list(dict.fromkeys(name for row in rows for name in changes(row.point)))
    named = any("name" in row.point for row in rows)
    columns = {"name": "name"} if named else {}
    columns |= short_names(fields)
    figures = [metric, "±", "seeds", "parameters", "seen", "seconds"]
    shown = [
        [*(_value(row.point, name) for name in columns), *_figures(row), _remarks(row) or " "]
        for row in rows
    ]
    text = table([*columns.values(), *figures, "remarks"], shown, words=len(columns), remarks=1)
    (folder / "leaderboard.md").write_text(text, "utf-8")
    with (folder / "leaderboard.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *figures, "run", "remarks"])
        for row in rows:
            values = [label(row.point) if n == "name" else row.point.get(n, "") for n in columns]
            means = [row.mean, row.deviation, len(row.scores)]
            costs = [row.parameters, row.count, row.seconds]
            writer.writerow([*values, *means, *costs, row.run, _remarks(row)])
    whole = [
        {"label": label(row.point), **row._asdict(), "mean": row.mean, "deviation": row.deviation}
        for row in rows
    ]
    result = {"metric": metric, "rows": whole}
    (folder / "leaderboard.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return text


def _value(point: Point, name: str) -> str:
    value = label(point) if name == "name" else point.get(name, "–")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figures(row: Row) -> list[str]:
    return [
        number(row.mean), number(row.deviation), str(len(row.scores)),
        f"{row.parameters:,}" if row.parameters else "–",
        f"{row.count:,.0f}" if row.count else "–",
        f"{row.seconds:,.0f}" if row.seconds else "–",
    ]  # fmt: skip


def _remarks(row: Row) -> str:
    pruned = ", ".join(number(score) for score in row.pruned)
    errors = [error.replace("|", "¦") for error in row.errors]
    said = [
        *([f"pruned at {pruned}"] if row.pruned else []),
        *(f"failed: {error}" for error in errors),
        *([f"{row.waiting} to come"] if row.waiting else []),
    ]
    return "; ".join(said)


def number(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:#.4g}"
