"""Which devices and cores each worker of this machine gets."""

import os
import shutil
import subprocess
from typing import NamedTuple

from errors import UserError

# The share of a GPU's memory that JAX takes: its name, and the name that it had.
MEMORY = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"


class Share(NamedTuple):
    cores: list[int]
    environment: dict[str, str]


def deal(workers: int) -> list[Share]:
    """Cores and GPUs in turn. Workers beyond the number of GPUs share them, and their memory,
    or as much of it as XLA_CLIENT_MEM_FRACTION leaves to all of them."""
    cores, gpus = _cores(), _gpus()
    shares = []
    for worker in range(workers):
        own = cores[worker::workers] or [cores[worker % len(cores)]] if cores else []
        environment = {}
        if gpus:
            mine = gpus[worker::workers] or [gpus[worker % len(gpus)]]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
            if workers > len(gpus):
                name, fraction = _memory()
                environment[name] = f"{fraction / -(-workers // len(gpus)):.3f}"
        shares.append(Share(own, environment))
    return shares


def _memory() -> tuple[str, float]:
    name = next((name for name in MEMORY if name in os.environ), MEMORY[0])
    given = os.environ.get(name, "0.9")
    try:
        return name, float(given)
    except ValueError:
        raise UserError(f"{name}={given}: a number like .45 is wanted") from None


def _cores() -> list[int]:
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))


def _gpus() -> list[str]:
    """NVIDIA's, by number or by the names that CUDA_VISIBLE_DEVICES has for them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name and name != "-1"]
    if not shutil.which("nvidia-smi"):
        return []
    found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return [str(i) for i, _ in enumerate(found.stdout.splitlines())]
