"""Compile and time JAX functions, and store results."""

import importlib.util
import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from absl import flags
from jax.sharding import Mesh

from training.devices import compiled as compiled_for
from training.devices import dispatched, make_mesh
from writing import write_json

HAS_TORCH = importlib.util.find_spec("torch") is not None
REPEATS = 5  # number of timed rounds; the median time over rounds is reported
ROUND_SECONDS = 0.5  # least duration of a round


class Compiled(NamedTuple):
    """A function that is compiled for one or more devices."""

    function: Callable
    temporary: int  # size of the temporary buffers per device in bytes
    bytes: int  # size of temporary buffers, arguments and results per device in bytes

    @classmethod
    def of(
        cls,
        function: Callable,
        *arguments: Any,
        mesh: Mesh | None = None,
        concurrent: bool = False,
    ) -> "Compiled":
        """Compile a function for these arguments and this mesh (default: one device)."""
        mesh = mesh or make_mesh(jax.devices()[:1])
        jitted = compiled_for(mesh, function, concurrent=concurrent)
        compiled = jitted.lower(*arguments).compile()
        memory: Any = compiled.memory_analysis()
        interface = memory.argument_size_in_bytes + memory.output_size_in_bytes
        temporary = memory.temp_size_in_bytes
        return cls(compiled, temporary, temporary + interface)


class Results:
    """The results file of this machine in the folder --out, to which benchmarks add results."""

    def __init__(self, suffix: str = ""):
        device = jax.devices()[0]
        kind = f"cpu {platform.machine()}" if device.platform == "cpu" else device.device_kind
        machine = re.sub(r"[\W_]+", "-", kind).strip("-").lower()
        self._path = Path(flags.FLAGS.out) / f"{machine}{suffix}.json"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self.figures: dict[str, Any] = {}
        if self._path.exists():
            self.figures = json.loads(self._path.read_text("utf-8"))
        name = f"{platform.machine()}, {os.cpu_count()} CPU cores"
        self.figures["device"] = name if device.platform == "cpu" else device.device_kind

    def add(self, name: str, figures: Any) -> None:
        """Add or replace the results of one part of a benchmark, and write the results file."""
        self.figures[name] = figures
        write_json(self._path, self.figures)


def format_row(row: dict[str, Any]) -> str:
    """Format the results of one measurement as one line."""
    return ", ".join(
        f"{k} {v:,.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
    )


def time_round(run: Callable[[int], None]) -> float:
    """Return the seconds per call in one round of ROUND_SECONDS, but of at least one call.

    `run` makes n calls and waits for the last one.
    """
    began = time.perf_counter()
    run(1)
    calls = max(1, int(ROUND_SECONDS / (time.perf_counter() - began)))
    began = time.perf_counter()
    run(calls)
    return (time.perf_counter() - began) / calls


def repeated(call: Callable[[], Any]) -> Callable[[int], None]:
    """Return a function that makes n calls of a JAX function and waits for the last one.

    As in training, AHEAD calls are dispatched beside the one that the host waits for.
    """

    def run(calls: int) -> None:
        # Only the smallest result of each call is kept; the others can be freed.
        results = (min(jax.tree.leaves(call()), key=lambda x: x.size) for _ in range(calls))
        for result in dispatched(results):
            jax.block_until_ready(result)

    return run


def matrix_rate() -> float:
    """Return the FLOP/s of a large matrix product, as a reference for training steps."""
    gpu = jax.default_backend() != "cpu"
    size, dtype = (8192, jnp.bfloat16) if gpu else (2048, jnp.float32)
    keys = jax.random.split(jax.random.key(0))
    x, y = (jax.random.normal(key, (size, size), dtype) for key in keys)
    product = Compiled.of(jnp.matmul, x, y).function
    run = repeated(lambda: product(x, y))
    run(1)
    return 2 * size**3 / statistics.median(time_round(run) for _ in range(REPEATS))
