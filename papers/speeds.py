"""Measure the duration of a training step of every architecture, with nothing else on the device.

Runs that share a device slow each other down, so their logs cannot show the device time that an
architecture needs.
"""

import itertools
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from configs.base import Config
from errors import UserError
from papers.budgets import architecture_of
from papers.plan import Plan
from reading import read_json
from training.records import Entry, read_complete_log
from writing import write_json

TIMED = 100  # number of training steps of one round; the first round is not timed
ROUNDS = 5  # number of timed rounds


def measure_speeds(plan: Plan, timed: int = TIMED) -> tuple[str, dict[str, float]]:
    """Return a device, and the seconds of one training step on it by architecture.

    speeds.json in the folder of the page keeps them, so that the page can be written on another
    machine. Remove it to measure again.
    """
    path = plan.page_folder / "speeds.json"
    for folder in {row.folder for row in plan.kept.values()}:
        # The costs of kept runs were computed from these times.
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / path.name, path)
    known: Any = {}
    if path.exists():
        known = read_json(path, {"device": str, "seconds": {str: float}}, f"remove {path}")
    seconds = known.get("seconds", {})
    for name, row in {architecture_of(row): row for row in plan.table.rows}.items():
        if name in seconds:
            continue
        device = _device()
        if known and known["device"] != device:
            raise UserError(
                f"{path} has times of {known['device']}, but not of {name}, and this machine has "
                f"{device}: run the command on {known['device']}, or delete the file and omit "
                f"--keep to measure all times on {device}"
            )
        print(f"measuring the duration of a training step: {name}", flush=True)
        seconds[name] = step_seconds(plan.config(row), timed)
        known = {"device": device, "seconds": seconds}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, known, indent=1)
    return known["device"], seconds


def _device() -> str:
    """Return the name of the device on which models are trained."""
    import jax

    return jax.devices()[0].device_kind


def step_seconds(config: Config, timed: int) -> float:
    """Train in rounds of `timed` steps; return the median over rounds of the seconds per step."""
    from tasks.registry import make_task
    from training.devices import make_mesh
    from training.loop import Evaluation, train

    steps = (1 + ROUNDS) * timed
    with config.unlocked():
        config.train.update({"steps": steps, "eval_every": steps, "log_every": timed, "samples": 0})
    scores = {"loss": 0.0, config.train.eval_metric: 0.0}
    with tempfile.TemporaryDirectory() as folder:
        train(make_task(config), lambda _: Evaluation(scores), config, Path(folder), make_mesh())
        return median_round(read_complete_log(Path(folder) / "log.jsonl"), timed)


def median_round(lines: Sequence[Entry], timed: int) -> float:
    """Return the median seconds per step of the rounds in a log, without the first one."""
    reports = [line for line in lines if line["kind"] == "train"]
    return statistics.median(
        (last["count"] - before["count"]) / last["count_per_second"] / timed
        for before, last in itertools.pairwise(reports)
    )
