"""Read log.jsonl and run.json of a run: its best evaluation, its costs, its device and commit."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import LOWER_IS_BETTER
from errors import UserError
from reading import DamagedFile, matching, read_bytes, read_json, reading

Entry = dict[str, Any]
REMOVE = "remove the folder of the run to train it again"
_NUMBER = int | float | None  # null stands for NaN and infinity
# The types of values in lines of the kinds "run" and "train" that sweeps and reproductions use.
_TYPES = {
    "step": int, "time": float, "parameters": int, "count": float, "count_per_second": float,
    "teraflops": float,
}  # fmt: skip
_FLOATS = [name for name, kind in _TYPES.items() if kind is float]


def read_log(path: Path) -> tuple[list[Entry], str]:
    """Return the valid lines of a log, and a message about its first damaged line, or "".

    The last line is ignored if it does not end in a line feed: train.py may still be writing it.
    """
    # Do not use splitlines(): it would also split at U+2028, which samples in the log may contain.
    lines = read_bytes(path, REMOVE).split(b"\n")[:-1]
    entries, problem = [], ""
    for number, line in enumerate(lines, 1):
        try:
            with reading(path, REMOVE):
                entries.append(_parse(line, number))
        except DamagedFile as error:
            problem = problem or str(error)
    return entries, problem


def _parse(line: bytes, number: int) -> Entry:
    place = f"line {number}"
    try:
        entry = json.loads(line)
    except ValueError:
        raise ValueError(f"{place} is not valid JSON") from None
    kind = matching(entry, {"kind": str}, place)["kind"]
    matching(entry, {name: of_type for name, of_type in _TYPES.items() if name in entry}, place)
    if kind == "valid":
        scores = {name: value for name, value in entry.items() if name != "kind"}
        matching(scores, {str: _NUMBER}, place)
    # Arithmetic with large integers could raise OverflowError, unlike that with floats.
    return entry | {name: float(entry[name]) for name in _FLOATS if name in entry}


def read_complete_log(path: Path) -> list[Entry]:
    """Return all lines of a log; raise UserError if a line is damaged, or has no step or time."""
    lines, problem = read_log(path)
    if problem:
        raise UserError(problem)
    with reading(path, REMOVE):
        return matching(lines, [{"step": int, "time": float}])


def best_metrics(lines: Sequence[Entry], metric: str) -> dict[str, float]:
    """Return all finite values of the evaluation with the best value of `metric`.

    The result is empty if no value of `metric` is finite.
    """
    sign = 1 if metric in LOWER_IS_BETTER else -1
    finite = [
        {n: x for n, x in line.items() if n not in ("step", "kind", "time") and _is_finite(x)}
        for line in lines
        if line["kind"] == "valid"
    ]
    known = [values for values in finite if metric in values]
    return min(known, key=lambda values: sign * values[metric], default={})


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def elapsed(lines: Sequence[Entry]) -> list[float]:
    """Return, for every line of a log, the seconds of training, compilation and evaluation so far.

    The time between two attempts, of which the later one begins with a line of the kind "run", does
    not count.
    """
    seconds, found = 0.0, []
    for line, before in zip(lines, [None, *lines], strict=False):
        start = line["time"] if before is None or line["kind"] == "run" else before["time"]
        seconds += line["time"] - start
        found.append(seconds)
    return found


def operations(lines: Sequence[Entry]) -> float | None:
    """Return the operations of all training steps in TFLOP; None if the log does not have them.

    A line has the number of operations and of loss terms (such as tokens) per second, and the
    number of loss terms so far.
    """
    total, before, known = 0.0, 0.0, False
    for line in lines:
        if line.get("count_per_second") and "teraflops" in line and "count" in line:
            total += line["teraflops"] * (line["count"] - before) / line["count_per_second"]
            before, known = line["count"], True
    return total if known else None


class Facts(NamedTuple):
    """Facts about a training run: model size, cost, commit and device."""

    parameters: int
    count: float  # number of loss terms, e.g. target tokens, in all training steps
    # Total time of training, compilation and evaluation in all attempts. Training steps that were
    # repeated after an interruption count once.
    seconds: float
    commit: str
    device: str


def facts(run: Path) -> Facts:
    """Read the facts about a run from its log.jsonl and run.json."""
    lines = read_complete_log(run / "log.jsonl")
    return make_facts(lines, read_starts(run))


def read_starts(run: Path) -> list[dict[str, Any]]:
    """Return the entries of a run's run.json; the last one must contain a commit and a device."""
    path = run / "run.json"
    kind = {"data?": str, "commit": str, "devices": [str]}
    starts = read_json(path, [kind], REMOVE)
    with reading(path, REMOVE):
        if not starts or not starts[-1]["devices"]:
            raise ValueError("it names no device")
    return starts


def make_facts(lines: Sequence[Entry], starts: Sequence[dict[str, Any]]) -> Facts:
    """Return the facts in a log and in the entries of run.json; missing ones are 0 or empty."""
    parameters, count = 0, 0.0
    for line in lines:
        parameters, count = line.get("parameters", parameters), line.get("count", count)
    seconds = elapsed(lines)[-1] if lines else 0.0
    last = starts[-1] if starts else {"commit": "", "devices": [""]}
    return Facts(parameters, count, seconds, last["commit"], last["devices"][0])
