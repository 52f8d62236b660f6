"""Measure the time from a command to the first training step and to the first translation.

    python -m benchmarks.startup

Every repetition starts four processes per config: train.py and predict.py, each with an empty and
then with a filled compilation cache. The corpus is prepared, and a short run for predict.py is
trained, before the time is measured. The phases are described in benchmarks/startup_process.py.
Results are written to docs/performance/<machine>.json, from which `python -m benchmarks.report`
generates docs/performance.md.
"""

import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
from absl import flags

from benchmarks import options
from benchmarks.measure import Results, format_row
from benchmarks.startup_process import PHASES
from program import run

_REPEATS = flags.DEFINE_integer("repeats", 5, "Number of repetitions.", lower_bound=1)
options.define("out")

CONFIGS = ("luong2015", "vaswani2017")
SENTENCE = "May 3, 2020\n"
STEPS = 20  # training steps of the runs for predict.py


def seconds_by_phase(name: str, words: Sequence[str], cache: Path) -> dict[str, float]:
    """Return the seconds of each phase of a process that runs train.py or predict.py."""
    began = time.time()
    command = [sys.executable, "-m", "benchmarks.startup_process", str(began), name, *words]
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    done = subprocess.run(
        command, env=environment, input=SENTENCE, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def summarize(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of the total seconds and of the seconds of each phase."""
    phases = dict.fromkeys(phase for seconds in rounds for phase in seconds)
    total = statistics.median(sum(seconds.values()) for seconds in rounds)
    medians = {x: statistics.median(seconds.get(x, 0.0) for seconds in rounds) for x in phases}
    return {"total": total} | medians


def prepare(config: str, folder: Path) -> dict[str, list[str]]:
    """Train a short run; return the flags of train.py and predict.py that are measured."""
    given, workdir = f"--config=configs/{config}.py:data=dates", f"--workdir={folder}/{config}"
    short = [f"--config.train.{name}={STEPS}" for name in ("steps", "eval_every")]
    command = [sys.executable, "train.py", given, *short, workdir]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return {"train": [given], "predict": [workdir]}


def measure_starts(config: str, folder: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Measure both programs with empty ("cold") and filled ("warm") compilation caches."""
    words, rounds = prepare(config, folder), collections.defaultdict(list)
    for number in range(repeats):
        for name in PHASES:
            cache = folder / f"{config}-{name}-{number}-cache"
            for state in ("cold", "warm"):
                out = [f"--workdir={folder}/{config}-{number}-{state}"] if name == "train" else []
                seconds = seconds_by_phase(name, [*words[name], *out], cache)
                rounds[f"{name}.py, {config}, {state} cache"].append(seconds)
    return {name: summarize(seconds) for name, seconds in rounds.items()}


def main() -> None:
    """Measure all configs, and write and print the results."""
    results, rows = Results(), dict[str, dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        for config in CONFIGS:
            for name, row in measure_starts(config, Path(folder), _REPEATS.value).items():
                rows[name] = row | {"versions": f"jax {jax.__version__}"}
                print(f"{name}: {format_row(rows[name])}", flush=True)
    results.add("startup", rows)


if __name__ == "__main__":
    run(main)
