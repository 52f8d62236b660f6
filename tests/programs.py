"""Runs the programs as a user does, each in a new process."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Most of the time is spent in compiling, so the compiler does not optimize.
FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if version("jaxlib").startswith("0.10."):  # its older fusion compiles three times as fast
    FAST += " --xla_cpu_use_fusion_emitters=false"
SMALL = [
    "--config=configs/luong2015.py:score=dot,data=dates,feed=no",
    "--config.data.examples.train=64",
    "--config.data.examples.valid=8",
    "--config.data.examples.test=8",
    "--config.data.buckets=1",
    "--config.data.batch_size=16",
    "--config.train.steps=4",
    "--config.train.eval_every=2",
]

# For tests of several processes: a network that compiles quickly, has dropout, and has a matrix
# that is large enough to be sharded over devices.
QUICK = [
    "--config=configs/schuster1997.py:network=brnn",
    "--config.data.examples.train=32",
    "--config.data.examples.valid=8",
    "--config.data.examples.test=8",
    "--config.data.buckets=1",
    "--config.data.batch_size=8",
    "--config.model.features=64",
    "--config.model.dropout=0.2",
]

ENVIRONMENT = os.environ | {"XLA_FLAGS": FAST}  # conftest.py adds the compilation cache


def call(program, *flags, check=True, **environment):
    """Run a program; with `check`, it must succeed."""
    command = [sys.executable, program, *flags]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300,
        env=ENVIRONMENT | environment,
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stderr
    return done
