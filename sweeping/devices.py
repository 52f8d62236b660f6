"""Divide the CPU cores and GPUs of this machine among workers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from errors import UserError

ROOT = Path(__file__).parent.parent
# Current and former name of the variable that sets the fraction of GPU memory for JAX.
MEMORY = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"


class Share(NamedTuple):
    """The CPU cores that one worker uses, and the environment variables that select its GPUs."""

    cores: list[int]
    environment: dict[str, str]


def machine_shares(workers: int) -> list[Share]:
    """Return one share per worker; cores and GPUs are distributed round-robin.

    If there are more workers than GPUs, several workers share a GPU. These workers divide the
    fraction of the GPU's memory that XLA_CLIENT_MEM_FRACTION allows (default: 0.9).
    """
    cores, gpus = _cores(), _gpus()
    shares = []
    for worker in range(workers):
        share = cores[worker::workers] or [cores[worker % len(cores)]] if cores else []
        environment = {}
        if gpus:
            visible = gpus[worker::workers] or [gpus[worker % len(gpus)]]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(visible)
            if workers > len(gpus):
                name, fraction = _memory()
                environment[name] = f"{fraction / -(-workers // len(gpus)):.3f}"
        shares.append(Share(share, environment))
    return shares


def train_command(share: Share, flags: Sequence[str]) -> list[str]:
    """Return the command that runs train.py on a share of the machine."""
    cores, parent = ",".join(map(str, share.cores)), str(os.getpid())
    launch, train = str(ROOT / "sweeping" / "launch.py"), str(ROOT / "train.py")
    return [sys.executable, launch, parent, cores, train, *flags]


def train_environment(share: Share) -> dict[str, str]:
    """Return the environment variables for `train_command`."""
    # Disable JAX's traceback filtering: workers report the last line of a traceback, which would
    # be a note about the filtering instead of the error.
    return {**os.environ, "JAX_TRACEBACK_FILTERING": "off", **share.environment}


def _memory() -> tuple[str, float]:
    """Return the environment variable for JAX's GPU memory fraction, and the fraction."""
    name = next((name for name in MEMORY if name in os.environ), MEMORY[0])
    given = os.environ.get(name, "0.9")
    try:
        return name, float(given)
    except ValueError:
        raise UserError(
            f"the environment variable {name}={given} is not a number: set it to a fraction such "
            "as 0.45"
        ) from None


def _cores() -> list[int]:
    if not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0))


def _gpus() -> list[str]:
    """Return the entries of CUDA_VISIBLE_DEVICES or, if it is not set, the indices of all GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name and name != "-1"]
    if not shutil.which("nvidia-smi"):
        return []
    found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    # Other lines describe MIG instances and errors.
    listed = [line for line in found.stdout.splitlines() if line.startswith("GPU ")]
    return [str(i) for i, _ in enumerate(listed)]
