"""Check that the memory of a long training run does not grow.

    python -m benchmarks.soak --minutes=30

Train on the generated corpus of dates in a separate process, with an evaluation and a checkpoint
every few seconds, and sample the memory of that process. Write docs/soak.json and docs/soak.png,
and exit with status 1 if the memory in the last third of the run was more than 2 % above the memory
in the second third.
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
from writing import write_json

_MINUTES = flags.DEFINE_float("minutes", 30.0, "Duration of training in minutes.", lower_bound=1.0)
_OUT = flags.DEFINE_string("out", "docs", "Folder for the results.")

EVERY = 5.0  # seconds between two memory samples
GROWTH = (
    0.02  # tolerated relative growth of memory from the middle third to the last third of the run
)
FLAGS = (
    "--config=configs/luong2015.py:data=dates", "--config.train.steps=100000000",
    "--config.train.eval_every=100", "--config.train.keep=3", "--config.train.patience=0",
    "--config.data.examples.valid=64",
)  # fmt: skip


def megabytes(process: int) -> float:
    """Return the memory of a process in MiB, without memory-mapped files."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def watch(process: subprocess.Popen, log: Path) -> list[dict[str, float]]:
    """Return memory samples of the process, starting when the file `log` has its first line."""
    samples, began = [], math.inf
    while (passed := time.monotonic() - began) < 60 * _MINUTES.value:
        if process.poll() is not None:
            raise UserError(
                f"train.py ended unexpectedly with status {process.returncode}: see its messages "
                "above"
            )
        if samples or (log.exists() and log.stat().st_size):
            began = min(began, time.monotonic())
            samples.append({"minutes": max(0, passed) / 60, "MiB": megabytes(process.pid)})
        time.sleep(EVERY)
    return samples


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot the memory of the process over time."""
    figure, axes = plt.subplots(figsize=(6, 3))
    axes.plot([x["minutes"] for x in result["samples"]], [x["MiB"] for x in result["samples"]])
    axes.set(xlabel="minutes", ylabel="memory in MiB", ylim=(0, None))
    axes.set_title(
        f"{result['steps']:,} training steps, {result['evaluations']:,} evaluations", fontsize=9
    )
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Sample the memory of a training run, write the results and check the memory for growth."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run" / "log.jsonl"
        command = [sys.executable, "train.py", *FLAGS, f"--workdir={log.parent}"]
        with subprocess.Popen(command) as process:
            try:
                samples = watch(process, log)
            finally:
                process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    third = len(samples) // 3
    before, after = (
        float(np.median([x["MiB"] for x in part]))
        for part in (samples[third : 2 * third], samples[2 * third :])
    )
    result = {
        "minutes": _MINUTES.value,
        "steps": lines[-1]["step"],
        "evaluations": sum(line["kind"] == "valid" for line in lines),
        "MiB, second third": before,
        "MiB, last third": after,
        "samples": samples,
    }
    out = Path(_OUT.value)
    write_json(out / "soak.json", result, indent=1)
    draw(result, out / "soak.png")
    print({name: value for name, value in result.items() if name != "samples"})
    if after > before * (1 + GROWTH):
        sys.exit(
            f"error: memory grew from {before:.0f} MiB in the second third of the run to "
            f"{after:.0f} MiB in the last third: see {out / 'soak.png'}"
        )


if __name__ == "__main__":
    run(main)
