"""The learning curves of runs, from log.jsonl."""

import sys
from collections.abc import Sequence
from typing import Any

from comparing.runs import ComparedRun
from evaluation.metrics import METRICS, in_sentence
from training.records import Entry, elapsed

MOST_POINTS = 400  # of a curve; longer curves are thinned out
_KINDS = {"valid": "Validation", "train": "Training"}
_NAMES = {
    "learning_rate": "learning rate", "count_per_second": "units per second",
    "teraflops": "TFLOP per second", "share_of_peak": "share of the peak rate",
    "skipped": "skipped training steps", "count": "number of units",
}  # fmt: skip


def learning_curves(runs: Sequence[ComparedRun]) -> list[dict[str, Any]]:
    """Return one entry per logged value: its label, and one curve per run.

    A curve is None if the run has not logged the value. Values of the validation come first, and
    among them the metric that selects checkpoints. Values that never vary are left out.
    """
    first = runs[0].config.train.eval_metric
    curves = [_curves(run.log) for run in runs]
    names = list(dict.fromkeys(name for found in curves for name in found))
    names.sort(key=lambda name: (name[0] != "valid", name != ("valid", first), name[1] != "loss"))
    entries = []
    for name in names:
        every = [found.get(name) for found in curves]
        if len({value for curve in every if curve for value in curve["values"]}) > 1:
            entries.append({"label": _label(*name), "curves": every})
    return entries


def _label(kind: str, name: str) -> str:
    shown = METRICS[name].name if name in METRICS else _NAMES.get(name, name)
    unit = " (%)" if name in METRICS and METRICS[name].unit == "%" else ""
    return f"{_KINDS[kind]} {in_sentence(shown)}{unit}"


def _curves(log: Sequence[Entry]) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Map kinds and names of logged values to curves: training steps, minutes and values."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line, seconds in zip(log, elapsed(log), strict=True):
        for name, value in line.items() if line["kind"] in _KINDS else ():
            if name in ("step", "time", "kind") or not _is_number(value):
                continue
            curve = found.setdefault(
                (line["kind"], name), {"steps": [], "minutes": [], "values": []}
            )
            curve["steps"].append(line["step"])
            curve["minutes"].append(seconds / 60)
            scale = METRICS[name].scale if name in METRICS else 1
            curve["values"].append(scale * value)
    return {
        name: {part: _thinned(values) for part, values in curve.items()}
        for name, curve in found.items()
    }


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max  # False for NaN and for integers that fit no float


def _thinned(values: list[float]) -> list[float]:
    """Return at most about MOST_POINTS evenly spaced values, always with the last one."""
    every = -(-len(values) // MOST_POINTS)
    return values[::-1][::every][::-1]
