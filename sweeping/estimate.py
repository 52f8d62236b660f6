"""Estimate the duration of a sweep by training its first point for a few training steps."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from configs.base import Config
from errors import UserError
from sweeping.devices import Share, train_command, train_environment
from sweeping.points import Base, Point
from training.records import read_log

# Number of timed training steps, after as many untimed ones; each half ends with an evaluation.
STEPS = 20
TRIAL_MESSAGE = (
    f"training the first run for {2 * STEPS} training steps to estimate the duration (can take "
    "minutes on a CPU)"
)


class Estimate(NamedTuple):
    """The expected cost of one training run."""

    steps: int  # training steps of the whole run
    step_seconds: float  # duration of one training step in seconds
    evaluations: int  # evaluations on the validation split in the whole run
    evaluation_seconds: float  # duration of one evaluation, without saving a checkpoint
    overhead: float  # seconds to start and to compile
    parameters: int

    @property
    def seconds(self) -> float:
        """The estimated duration of the whole run in seconds, unless it stops early."""
        training = self.steps * self.step_seconds
        return self.overhead + training + self.evaluations * self.evaluation_seconds


def duration(seconds: float) -> str:
    """Format a duration, for example as 45 s, 12 min, 7 h 05 min or 9 days."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours / 24:.0f} days"


def estimate(base: Base, point: Point, share: Share) -> Estimate:
    """Estimate the cost of a run from a short training run in a temporary folder.

    train.py runs on one worker's share of the machine. It compiles all programs, because most
    points of a sweep do. Its messages are printed only if it fails.
    """
    config: Config = base.config(point, 0)
    few = {"steps": 2 * STEPS, "eval_every": STEPS, "log_every": STEPS}
    short: Point = {**point, **{f"train.{name}": value for name, value in few.items()}}
    with tempfile.TemporaryDirectory() as folder:
        flags = base.flags(short, 0)
        began = time.monotonic()
        done = subprocess.run(
            train_command(share, [*flags, f"--workdir={folder}/run"]),
            env=train_environment(share) | {"JAX_ENABLE_COMPILATION_CACHE": "false"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - began
        if done.returncode:
            sys.stderr.write(done.stderr)
            raise UserError(
                "the short run for the time estimate failed: see its error message above"
            )
        lines, _ = read_log(Path(folder) / "run" / "log.jsonl")
    first = next(line for line in lines if line["kind"] == "run")
    before, last = [line for line in lines if line["kind"] == "train"][-2:]
    step = (last["count"] - before["count"]) / last["count_per_second"] / STEPS
    evaluated = [line for line in lines if line["kind"] == "valid"][-1]
    evaluation = evaluated["time"] - last["time"]
    overhead = max(0.0, seconds - 2 * (STEPS * step + evaluation))
    steps = config.train.steps or max(1, round(config.train.epochs * first["epoch"]))
    evaluations = -(-steps // config.train.eval_every)
    return Estimate(steps, step, evaluations, evaluation, overhead, first["parameters"])
