"""Measure the memory of a long training run with its evaluations and checkpoints.

    python -m benchmarks.soak --minutes=30

Trains on the embedded corpus in a separate process, with an evaluation and a checkpoint every few
seconds, and samples the memory of that process. Writes docs/soak.json and docs/soak.png, and exits
with status 1 if the memory grew after the first third.
"""

import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from absl import flags

from errors import UserError
from program import run
from records import to_json

_MINUTES = flags.DEFINE_float("minutes", 30.0, "Duration in minutes.", lower_bound=1.0)
_OUT = flags.DEFINE_string("out", "docs", "Folder for the results.")

EVERY = 5.0  # seconds between two samples
GROWTH = 0.02  # fraction by which the last third may exceed the second
FLAGS = (
    "--config=configs/luong2015.py:data=dates", "--config.train.steps=100000000",
    "--config.train.eval_every=100", "--config.train.keep=3", "--config.train.patience=0",
    "--config.data.examples.valid=64",
)  # fmt: skip


def megabytes(process: int) -> float:
    """Return the anonymous memory of a process in MiB; mapped files are not counted."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def watch(process: subprocess.Popen, log: Path) -> list[dict[str, float]]:
    """Sample the memory of the process from its first log line on."""
    seen, began = [], math.inf
    while (passed := time.monotonic() - began) < 60 * _MINUTES.value:
        if process.poll() is not None:
            raise UserError(f"train.py ended unexpectedly with status {process.returncode}")
        if seen or (log.exists() and log.stat().st_size):
            began = min(began, time.monotonic())
            seen.append({"minutes": max(0, passed) / 60, "MiB": megabytes(process.pid)})
        time.sleep(EVERY)
    return seen


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot the memory over time."""
    figure, place = plt.subplots(figsize=(6, 3))
    place.plot([x["minutes"] for x in result["seen"]], [x["MiB"] for x in result["seen"]])
    place.set(xlabel="minutes", ylabel="MiB", ylim=(0, None))
    place.set_title(f"{result['steps']:,} steps, {result['evaluations']:,} evaluations", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run" / "log.jsonl"
        command = [sys.executable, "train.py", *FLAGS, f"--workdir={log.parent}"]
        with subprocess.Popen(command) as process:
            try:
                seen = watch(process, log)
            finally:
                process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    third = len(seen) // 3
    before, after = (
        float(np.median([x["MiB"] for x in part]))
        for part in (seen[third : 2 * third], seen[2 * third :])
    )
    result = {
        "minutes": _MINUTES.value,
        "steps": lines[-1]["step"],
        "evaluations": sum(line["kind"] == "valid" for line in lines),
        "MiB, second third": before,
        "MiB, last third": after,
        "seen": seen,
    }
    out = Path(_OUT.value)
    (out / "soak.json").write_text(to_json(result, indent=1) + "\n")
    draw(result, out / "soak.png")
    print({name: value for name, value in result.items() if name != "seen"})
    if after > before * (1 + GROWTH):
        sys.exit(f"error: memory grew from {before:.0f} to {after:.0f} MiB")


if __name__ == "__main__":
    run(main)
