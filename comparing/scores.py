"""Scores and costs of systems: mean and standard deviation over seeds, and significance tests."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from comparing.comparability import Comparability, listed
from comparing.runs import ComparedRun
from comparing.systems import System
from evaluation.bootstrap import (
    EXAMPLE_SCORES,
    bootstrap_means,
    bootstrap_p,
    equation_p,
    format_p,
    welch,
)
from evaluation.metrics import FAITHFULNESS, Metric, in_sentence, metric_of
from training.records import best_metrics, operations


class ScoreCell(NamedTuple):
    """One score of a system."""

    text: str  # mean ± standard deviation over seeds; "–" if there is none
    mean: float | None
    # Whether no other system has a better mean; False if all means are equal or not comparable.
    best: bool


class Contrast(NamedTuple):
    """The difference between the mean scores of two systems."""

    difference: str
    p: str  # two-sided p-value, such as "p = .032"; "" if there is no test
    test: str  # "bootstrap", "t" (Welch's t-test over seeds) or ""


def validation_report(run: ComparedRun) -> dict[str, Any] | None:
    """Return the scores of the best evaluation during training, in the form of scores.json.

    Return None if the run has not been evaluated yet.
    """
    found = best_metrics(run.log, run.config.train.eval_metric)
    return {"scores": found} if found else None


def score_table(systems: Sequence[System], comparable: Comparability) -> list[dict[str, Any]]:
    """Return one entry per score, with its name, its direction and the results of all systems.

    "contrasts"[i][j] compares system i with system j. It is None if one of them has no score, or if
    their scores are not comparable. The bootstrap is used if the reports have the same examples.
    """
    reports = [run.report for system in systems for run in system.runs if run.report]
    entries = []
    for key in dict.fromkeys(key for report in reports for key in report["scores"]):
        metric = metric_of(key)
        notes = {report.get("signatures", {}).get(key, metric.note) for report in reports}
        means = [_sampled(key, system) if comparable.examples else None for system in systems]
        measured = [_values(system, "scores", key) for system in systems]
        entry = _entry(metric, measured, means, comparable.groups(key, systems))
        entries.append({"name": metric.name, "note": "; ".join(sorted(notes)), **entry})
    return entries


def describe_tests(table: Sequence[dict[str, Any]]) -> str:
    """Describe the bold means of a `score_table` and the tests behind its p-values."""
    by_test: dict[str, list[str]] = {}
    for entry in table:
        tests = {x["test"] for row in entry["contrasts"] for x in row if x}
        for test in tests - {""} or tests:
            by_test.setdefault(test, []).append(in_sentence(entry["name"]))
    texts = []
    if any(cell["best"] for entry in table for cell in entry["cells"]):
        texts.append("The best mean of a score is bold if all systems can be compared.")
    if by_test:
        texts.append("Below a score is its difference from that of the chosen system.")
    if names := by_test.get("bootstrap"):
        texts.append(
            f"The two-sided p-values of {listed(names)} are those of a paired bootstrap over the "
            "examples (1,000 resamples)."
        )
    if names := by_test.get("t"):
        texts.append(
            f"The two-sided p-values of {listed(names)}, marked (t), are those of Welch's t-test "
            "over seeds, for systems with at least two seeds."
        )
    if names := by_test.get(""):
        texts.append(
            f"There are no p-values for {listed(names)}: Welch's t-test needs at least two seeds "
            "per system, with scores that vary."
        )
    return " ".join(texts)


def faithfulness_table(
    systems: Sequence[System], comparable: Comparability
) -> list[dict[str, Any]]:
    """Return one entry per measure of faithfulness, like `score_table`; [] if there are none.

    The value of a single seed is followed by its confidence interval over examples.
    """
    entries = []
    for key, metric in FAITHFULNESS.items():
        measured = [_values(system, "faithfulness", key) for system in systems]
        if any(measured):
            groups = comparable.groups(key, systems)
            entry = _entry(metric, measured, [None] * len(systems), groups)
            for cell, system in zip(entry["cells"], systems, strict=True):
                cell["text"] += _interval(system, key, metric)
            name = f"{metric.full_name} ({metric.unit})"
            entries.append({**entry, "key": key, "name": name, "note": "", "unit": ""})
    return entries


def faithfulness_sample(systems: Sequence[System]) -> str:
    """Return the size of the sample, such as "200 examples"; "" if the reports lack it."""
    counts = [n for system in systems for n in _values(system, "faithfulness", "examples") if n]
    if not counts:
        return ""
    sizes = dict.fromkeys(f"{int(n):,}" for n in (min(counts), max(counts)))
    return f"{' to '.join(sizes)} examples"


def _interval(system: System, key: str, metric: Metric) -> str:
    """Return the confidence interval of a measure of one seed; "" for several or none."""
    ends = [_values(system, "faithfulness", f"{key}_{end}") for end in ("low", "high")]
    if any(len(values) != 1 for values in ends):
        return ""
    return f" [{', '.join(metric.text(value) for (value,) in ends)}]"


def _entry(
    metric: Metric,
    measured: Sequence[Sequence[float]],
    means: Sequence[np.ndarray | None],
    groups: Sequence[object],
) -> dict[str, Any]:
    """Return the results of one score: its values by system and, if known, bootstrap means.

    Only systems of the same group are compared, and none is the best if the groups differ.
    """
    cells = _cells(metric, measured)
    contrasts = _contrasts(metric, measured, means)
    for i, row in enumerate(contrasts):
        row[:] = [x if groups[i] == groups[j] else None for j, x in enumerate(row)]
    if any(group != groups[0] for group in groups):
        cells = [cell._replace(best=False) for cell in cells]
    return {
        "unit": metric.unit, "direction": metric.direction,
        "cells": [cell._asdict() for cell in cells], "contrasts": contrasts,
    }  # fmt: skip


def _values(system: System, part: str, key: str) -> list[float]:
    """Return the known values of a score, one per run; NaN and infinity count as unknown.

    `part` is the part of scores.json that contains the score.
    """
    found = (run.report.get(part, {}).get(key) for run in system.runs if run.report)
    return [float(value) for value in found if value is not None and math.isfinite(value)]


def _cells(metric: Metric, measured: Sequence[Sequence[float]]) -> list[ScoreCell]:
    means = [statistics.mean(values) if values else None for values in measured]
    known = [mean for mean in means if mean is not None]
    best = None
    if len(set(known)) > 1 and metric.higher_is_better is not None:
        best = (max if metric.higher_is_better else min)(known)
    return [
        ScoreCell(_mean_text(values, metric), mean, mean is not None and mean == best)
        for values, mean in zip(measured, means, strict=True)
    ]


def _mean_text(values: Sequence[float], metric: Metric) -> str:
    """Format mean ± standard deviation, or the value itself if there is only one."""
    if not values:
        return "–"
    text = metric.text(statistics.mean(values))
    if len(values) == 1:
        return text
    form = ".2g" if metric.form.endswith("g") else metric.form
    return f"{text} ± {metric._replace(form=form).text(statistics.stdev(values))}"


def _contrasts(
    metric: Metric, measured: Sequence[Sequence[float]], means: Sequence[np.ndarray | None]
) -> list[list[dict[str, str] | None]]:
    def contrast(i: int, j: int) -> dict[str, str] | None:
        if i == j or not measured[i] or not measured[j]:
            return None
        gap = statistics.mean(measured[i]) - statistics.mean(measured[j])
        difference = f"{'+' if gap >= 0 else '−'}{metric.text(abs(gap))}"
        first, second = means[i], means[j]
        if first is not None and second is not None:
            p, test = bootstrap_p(first, second), "bootstrap"
        else:
            p, test = welch(measured[i], measured[j]), "t"
        if math.isnan(p):
            return Contrast(difference, "", "")._asdict()
        return Contrast(difference, equation_p(format_p(p)), test)._asdict()

    return [[contrast(i, j) for j in range(len(measured))] for i in range(len(measured))]


def _sampled(key: str, system: System) -> np.ndarray | None:
    """Return the bootstrap means of a score; None if an example of a run has no statistics."""
    if key not in EXAMPLE_SCORES or not all(run.examples for run in system.runs):
        return None
    runs = []
    for run in system.runs:
        rows = [example.statistics.get(key) for example in run.examples]
        if any(row is None for row in rows):
            return None
        runs.append(np.array(rows, float))
    return bootstrap_means(runs, EXAMPLE_SCORES[key].score)


def cost_table(systems: Sequence[System], unit: str) -> dict[str, Any]:
    """Return the head and the rows of the cost table: means over the seeds of every system.

    `unit` is the plural name of the units that the loss is averaged over, such as "tokens".
    """
    head = [
        "System", "Seed numbers", "Parameters", "Training steps", f"Training {unit}", "Minutes",
        f"{unit.capitalize()} per second", "Operations (TFLOP)", "Device", "Commit",
    ]  # fmt: skip
    return {"head": head, "rows": [_cost(system) for system in systems]}


def _cost(system: System) -> list[str]:
    runs = system.runs

    def mean(of: Callable[[ComparedRun], float | None], form: str) -> str:
        values = [value for run in runs if (value := of(run)) is not None]
        return format(statistics.mean(values), form) if values else "–"

    def texts(of: Callable[[ComparedRun], str]) -> str:
        return ", ".join(sorted({text for run in runs if (text := of(run))})) or "–"

    return [
        system.name, system.seeds,
        texts(lambda run: f"{run.facts.parameters:,}" if run.facts.parameters else ""),
        mean(_steps, ",.0f"),
        mean(lambda run: run.facts.count or None, ",.0f"),
        mean(lambda run: run.facts.seconds / 60 if run.log else None, ",.1f"),
        mean(_speed, ",.0f"),
        mean(lambda run: operations(run.log), ",.4g"),
        texts(lambda run: run.facts.device),
        texts(lambda run: run.facts.commit[:9] + run.facts.commit[40:]),
    ]  # fmt: skip


def _steps(run: ComparedRun) -> float | None:
    return max((line["step"] for line in run.log), default=None)


def _speed(run: ComparedRun) -> float | None:
    """Return the median speed of a run, in units of the loss per second."""
    speeds = [line["count_per_second"] for line in run.log if "count_per_second" in line]
    return statistics.median(speeds) if speeds else None
