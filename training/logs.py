"""Training logs: JSON lines, TensorBoard, and a progress bar or plain lines on the terminal."""

import json
import logging
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tensorboardX import SummaryWriter
from tqdm import tqdm

from reading import matching, read_bytes
from terminal import clean_lines
from training.hosts import is_first_process
from writing import to_json, write_bytes

logger = logging.getLogger("alignax")


class Clock:
    """Estimates the remaining time of a run from its training steps and evaluations.

    The remaining evaluations are assumed to take as long as the shortest one so far, without the
    first one, which also compiles.
    """

    def __init__(self, start: int, steps: int, eval_every: int):
        self._start, self._steps, self._eval_every = start, steps, eval_every
        self._evaluating: list[float] = []  # durations of all evaluations so far in seconds
        self.restart()

    def restart(self) -> None:
        """Begin to measure training steps."""
        self._began = time.monotonic()

    def evaluated(self, seconds: float) -> None:
        """Record the duration of an evaluation."""
        self._evaluating.append(seconds)

    def left(self, step: int) -> float:
        """Return the remaining seconds after a training step, before its evaluation if any."""
        training = time.monotonic() - self._began - sum(self._evaluating)
        training *= (self._steps - step) / (step - self._start)
        evaluations = -(-self._steps // self._eval_every) - (step - 1) // self._eval_every
        return training + evaluations * min(self._evaluating[1:], default=0.0)


class Log:
    """Writes scalars to `log.jsonl` and `tensorboard/` in a workdir, and prints them.

    In a multi-host run, only the first process writes. A resumed run first deletes the records of
    training steps after its checkpoint, because it repeats these steps.
    """

    def __init__(self, workdir: Path, start: int, steps: int, eval_every: int, loss_unit: str):
        """Open the logs of a run that has completed `start` of `steps` training steps.

        The run evaluates after every `eval_every` training steps. `loss_unit` is the plural name of
        the unit of throughput, such as "tokens".
        """
        path, board = workdir / "log.jsonl", str(workdir / "tensorboard")
        if not is_first_process():
            path = Path(os.devnull)
        elif path.exists():
            # Lines are read as bytes, because a killed run may leave half a character at the end.
            lines = read_bytes(path).split(b"\n")
            write_bytes(path, b"".join(line + b"\n" for line in lines if _step(line) <= start))
        self._file = path.open("a", encoding="utf-8")
        # The queue is unbounded (0), because a bounded queue blocks forever after a full disk has
        # ended the writer thread.
        self._board = SummaryWriter(
            board, purge_step=start + 1, max_queue=0, write_to_disk=is_first_process()
        )
        shown = sys.stderr.isatty() and is_first_process()
        self._bar = tqdm(initial=start, total=steps, unit=" steps", disable=not shown)
        self._steps, self._start, self._loss_unit = steps, start, loss_unit
        self._clock = Clock(start, steps, eval_every)

    def start(self) -> None:
        """Begin to measure training steps, after compilation."""
        self._clock.restart()
        self._bar.reset()
        self._bar.update(self._start)

    def advance(self) -> None:
        """Advance the progress bar by one training step."""
        self._bar.update()

    def evaluated(self, seconds: float) -> None:
        """Record the duration of an evaluation, for the remaining time."""
        self._clock.evaluated(seconds)

    def scalars(self, step: int, kind: str, values: dict[str, float]) -> None:
        """Record values with their kind ("train" or "valid"); NaN and infinity become null."""
        self._write({"step": step, "kind": kind, **values})
        for name, value in values.items():
            # tensorboardX warns about NaN and infinity, so only finite values are added.
            if math.isfinite(value):
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def facts(self, step: int, **facts: int) -> None:
        """Record facts about the run, such as its number of parameters, at a start or resume."""
        self._write({"step": step, "kind": "run", **facts})

    def _write(self, line: dict) -> None:
        line["time"] = round(time.time(), 1)
        self._file.write(to_json(line) + "\n")
        self._file.flush()

    def progress(
        self, step: int, loss: float, per_second: float, flops: float, share: float
    ) -> None:
        """Show the training loss and the throughput.

        The throughput is given in examples or tokens per second, in FLOP/s and as a share of the
        devices' peak rate, which is NaN if it is unknown. Without a progress bar, also show the
        training step and the remaining time.
        """
        shown = f"loss {loss:#.4g}, {per_second:,.0f} {self._loss_unit}/s, {_rate(flops)}"
        shown += "" if math.isnan(share) else f" ({share:.0%} of the peak)"
        self._bar.set_postfix_str(shown)
        if self._bar.disable:
            left = tqdm.format_interval(int(self._clock.left(step)))
            self.say(f"step {step:,}/{self._steps:,}: {shown}, {left} left")

    def say(self, line: str) -> None:
        """Print a line, above the progress bar if there is one."""
        if self._bar.disable:
            logger.info("%s", line)
        else:
            self._bar.write(clean_lines(line), file=sys.stderr)

    def samples(self, step: int, samples: Sequence[dict[str, str]]) -> None:
        """Record and print sample outputs of an evaluation."""
        for sample in samples:
            self._write({"step": step, "kind": "sample", **sample})
            self.say("  " + "  |  ".join(f"{name}: {text}" for name, text in sample.items()))
            text = "\n\n".join(f"{name}: {text}" for name, text in sample.items())
            self._board.add_text("samples", text, step)

    def close(self) -> None:
        self._bar.close()
        self._file.close()
        self._board.close()


def _step(line: bytes) -> float:
    try:
        return matching(json.loads(line), {"step": int})["step"]
    except (ValueError, RecursionError):  # incomplete, because the run was killed, or damaged
        return float("inf")


def _rate(flops: float) -> str:
    return f"{flops / 1e12:.3g} TFLOP/s" if flops >= 1e12 else f"{flops / 1e9:.3g} GFLOP/s"
