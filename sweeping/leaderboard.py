"""Write the results of a sweep as Markdown, CSV and JSON: one row per point, sorted by score."""

import csv
import io
import math
import shlex
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from optuna.trial import TrialState

from markup import code, table
from sweeping.points import Point, changes, label, run_name, short_names
from sweeping.settings import LOSS_UNIT
from sweeping.study import Record
from terminal import clean
from writing import write_json, write_text


class Standing(NamedTuple):
    """The results of one point over its seeds."""

    point: Point
    scores: list[float]  # best validation score of each complete run
    pruned: list[float]  # last validation score of each pruned run
    errors: list[str]  # error message of each failed run
    unfinished: int  # number of runs that are waiting or running
    parameters: int | None
    count: float | None  # mean number of training tokens (or other loss terms) of a complete run
    seconds: float | None  # mean duration of a complete run with all its attempts
    run: str  # folder of the point's runs, relative to the sweep's folder
    # Means over the complete runs of all validation metrics, at the evaluation with the best score.
    metrics: dict[str, float] = {}

    @property
    def mean(self) -> float | None:
        """Mean of `scores` over seeds; None if no run is complete."""
        return statistics.mean(self.scores) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation of `scores` over seeds; None with fewer than two complete runs."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None

    @property
    def loss(self) -> float:
        """Mean loss at the evaluations with the best scores; infinity if it is not known."""
        return self.metrics.get("loss", math.inf)


def make_standings(records: Iterable[Record], lower_is_better: bool) -> list[Standing]:
    """Group trials by point and sort the points by their mean score, and equal scores by loss.

    Points without pruned or failed runs come first. Points with some pruned or failed runs follow,
    because the mean over their remaining seeds is biased. Next are points without a complete run,
    sorted by the scores of their pruned runs. Points without any score are last.
    """
    by_key: dict[str, list[Record]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(record)
    sign = 1 if lower_is_better else -1

    def rank(standing: Standing) -> tuple[int, float, float]:
        if standing.scores:
            incomplete = bool(standing.pruned or standing.errors)
            return incomplete, sign * statistics.mean(standing.scores), standing.loss
        if standing.pruned:
            return 2, sign * statistics.mean(standing.pruned), standing.loss
        return 3, 0.0, standing.loss

    return sorted(map(_standing, by_key.values()), key=rank)


def _standing(records: Sequence[Record]) -> Standing:
    """Summarize the trials of one point."""

    def in_state(state: TrialState) -> list[Record]:
        return [record for record in records if record.state == state]

    def mean(name: str) -> float | None:
        known = [r.facts[name] for r in in_state(TrialState.COMPLETE) if name in r.facts]
        return statistics.mean(known) if known else None

    parameters = [r.facts["parameters"] for r in records if "parameters" in r.facts]
    return Standing(
        point=records[0].point,
        scores=[r.score for r in in_state(TrialState.COMPLETE) if r.score is not None],
        pruned=[r.score for r in in_state(TrialState.PRUNED) if r.score is not None],
        errors=[r.facts["error"] for r in in_state(TrialState.FAIL) if "error" in r.facts],
        unfinished=sum(not r.over for r in records),
        parameters=parameters[0] if parameters else None,
        count=mean("count"),
        seconds=mean("seconds"),
        run=f"runs/{run_name(records[0].key, records[0].point)}",
        metrics=_mean_metrics(in_state(TrialState.COMPLETE)),
    )  # fmt: skip


def _mean_metrics(records: Sequence[Record]) -> dict[str, float]:
    """Return the means of the metrics that all records have; the loss is the first one."""
    every = [record.facts.get("metrics", {}) for record in records]
    names = [name for name in (every[0] if every else ()) if all(name in one for one in every)]
    names.sort(key=lambda name: name != "loss")
    return {name: statistics.mean(one[name] for one in every) for name in names}


def write_leaderboard(
    standings: Sequence[Standing], metric: str, folder: Path, unit: str = LOSS_UNIT
) -> str:
    """Write leaderboard.md, .csv and .json; return the table in Markdown.

    All validation metrics follow the score by which the points are sorted. `unit` is the plural
    name of the units that the loss is averaged over, such as "tokens".
    """
    fields = list(dict.fromkeys(name for s in standings for name in changes(s.point)))
    named = any("name" in s.point for s in standings)
    columns = {"name": "name"} if named else {}
    columns |= short_names(fields)
    others = list(dict.fromkeys(name for s in standings for name in s.metrics if name != metric))
    figures = [
        metric, "standard deviation", "seeds", *others, "parameters", f"training {unit}", "seconds",
    ]  # fmt: skip
    rows = [
        [*(_value(s.point, name) for name in columns), *_figures(s, others), _remarks(s) or " "]
        for s in standings
    ]
    text = table([*columns.values(), *figures, "remarks"], rows, words=len(columns), remarks=1)
    command = compare_command(standings, folder)
    note = f"\nTo compare the runs on one page: {code(command)}\n" if command else ""
    ranking = f"Points are ranked by their mean {metric} on the validation split."
    write_text(folder / "leaderboard.md", f"# Leaderboard\n\n{ranking}\n\n{text}{note}")
    csv_text = io.StringIO(newline="")
    writer = csv.writer(csv_text)
    writer.writerow([*columns, *figures, "run", "remarks"])
    for s in standings:
        values = [label(s.point) if n == "name" else s.point.get(n, "") for n in columns]
        means = [s.mean, s.deviation, len(s.scores)]
        costs = [s.parameters, s.count, s.seconds]
        further = [s.metrics.get(name) for name in others]
        row = [*values, *means, *further, *costs, s.run, _remarks(s)]
        writer.writerow([clean(x) if isinstance(x, str) else x for x in row])
    write_text(folder / "leaderboard.csv", csv_text.getvalue())
    entries = [
        {"label": label(s.point), **s._asdict(), "mean": s.mean, "deviation": s.deviation}
        for s in standings
    ]
    write_json(folder / "leaderboard.json", {"metric": metric, "rows": entries})
    return text


def compare_command(standings: Sequence[Standing], folder: Path) -> str:
    """Return the command that compares all runs of a sweep; "" if there are fewer than two."""
    if sum(len(s.scores) for s in standings) < 2:
        return ""
    return f"python compare.py {shlex.quote(f'--runs={folder}/runs/*/*')}"


def _value(point: Point, name: str) -> str:
    value = label(point) if name == "name" else point.get(name, "–")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _figures(standing: Standing, others: Sequence[str]) -> list[str]:
    return [
        number(standing.mean), number(standing.deviation), str(len(standing.scores)),
        *(number(standing.metrics.get(name)) for name in others),
        f"{standing.parameters:,}" if standing.parameters else "–",
        f"{standing.count:,.0f}" if standing.count else "–",
        f"{standing.seconds:,.0f}" if standing.seconds else "–",
    ]  # fmt: skip


def _remarks(standing: Standing) -> str:
    """Describe the pruned, failed and unfinished runs of a point; "" if there are none."""
    pruned = ", ".join(number(score) for score in standing.pruned)
    remarks = [
        *([f"pruned at {pruned}"] if standing.pruned else []),
        *(f"failed: {error}" for error in standing.errors),
        *([f"{standing.unfinished} not finished"] if standing.unfinished else []),
    ]
    return "; ".join(remarks)


def number(value: float | None) -> str:
    """Format a score with four significant digits; a missing score or NaN becomes "–"."""
    return "–" if value is None or math.isnan(value) else f"{value:#.4g}"
