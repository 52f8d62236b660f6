"""Print the operations of which a training step or a beam search consists, by total time.

    python -m benchmarks.kernels --subjects=recurrent

Operations are grouped by the names that XLA gives them, without their numbers. On a GPU, an
operation is a kernel, and its line also shows the name of the kernel. CUDA graphs are disabled,
because their kernels are not recorded one by one, so the total time is longer than in training.
"""

import collections
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
from absl import flags

from benchmarks import options
from benchmarks.measure import Compiled
from benchmarks.subjects import SUBJECTS
from program import run
from training.devices import GPU_OPTIONS

_MOST = flags.DEFINE_integer("most", 30, "Number of operations to print.", lower_bound=1)
options.define("subjects")
CALLS = 3  # number of recorded calls


class Operation(NamedTuple):
    """Operations with the same name: their number and total time per call."""

    name: str
    count: float
    microseconds: float


def operations(call: Callable[[], Any]) -> list[Operation]:
    """Call a compiled function and return its operations, those with the longest time first."""
    jax.block_until_ready(call())
    totals: dict[str, list[float]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(CALLS):
                jax.block_until_ready(call())
        for name, microseconds in _events(Path(folder)):
            totals[name].append(microseconds)
    found = [Operation(n, len(times) / CALLS, sum(times) / CALLS) for n, times in totals.items()]
    return sorted(found, key=lambda operation: -operation.microseconds)


def _events(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield the name and the microseconds of every recorded operation."""
    (path,) = folder.rglob("*.xplane.pb")
    gpu = jax.default_backend() == "gpu"
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            for event in line.events:
                operation = dict(event.stats).get("hlo_op")
                if operation and (not gpu or line.name.startswith("Stream")):
                    name = re.sub(r"[.\d]+$", "", str(operation))
                    kernel = re.sub(r"_\d+$", "", event.name)[:60]
                    shown = name if not gpu or kernel == name else f"{name}: {kernel}"
                    yield shown, event.duration_ns / 1e3


def main() -> None:
    """Print the operations of the selected models."""
    gpu = jax.default_backend() == "gpu"
    subjects = SUBJECTS["gpu" if gpu else "cpu"]
    separate = {"xla_gpu_enable_command_buffer": ""} if gpu else {}
    with mock.patch.dict(GPU_OPTIONS, separate):
        for name in options.selected(subjects):
            subject = subjects[name]
            step, *arguments = subject.training_step()
            compiled = Compiled.of(step, *arguments).function
            _print(f"{name}, training step", operations(lambda f=compiled, a=arguments: f(*a)))
            _print(f"{name}, beam search", operations(subject.beam_search()))


def _print(title: str, found: list[Operation]) -> None:
    total = sum(operation.microseconds for operation in found)
    count = sum(operation.count for operation in found)
    print(f"{title}: {total / 1e3:,.2f} ms in {count:,.0f} operations")
    for name, number, microseconds in found[: _MOST.value]:
        share = microseconds / total
        print(f"{share:6.1%} {microseconds:10,.0f} µs {number:8,.0f} × {name}", flush=True)


if __name__ == "__main__":
    run(main)
