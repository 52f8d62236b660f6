"""The programs as a user runs them, in processes of their own."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Compiling takes most of the time here, so code is compiled fast rather than to be fast.
FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
if version("jaxlib").startswith("0.10."):  # its older way to fuse compiles in a third of the time
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

# For what processes do to each other: a network that compiles in a moment, with dropout, and a
# matrix that is large enough to be divided over devices.
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

# conftest.py adds where compilations are kept.
ENVIRONMENT = os.environ | {
    "XLA_FLAGS": FAST,
}


def call(program, *flags, check=True):
    command = [sys.executable, program, *flags]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=ENVIRONMENT
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done
