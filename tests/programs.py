"""Runs the programs as a user does, each in a new process."""

import os
import pty
import select
import shlex
import subprocess
import sys
import time
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


class Conversation:
    """A process whose input, output and controlling terminal are a pseudo-terminal."""

    def __init__(self, *command):
        self._ours, self._theirs = pty.openpty()
        name = os.ttyname(self._theirs)
        # The shell starts a session; the first terminal that it opens controls the session.
        line = f"exec {shlex.join(command)} <{name} >{name} 2>&1"
        self._process = subprocess.Popen(
            ["sh", "-c", line], cwd=ROOT, env=ENVIRONMENT | {"TERM": "xterm"},
            start_new_session=True,
        )  # fmt: skip

    def expect(self, text):
        """Wait until the program has shown `text`; return everything since the last call."""
        shown, end = b"", time.monotonic() + 300
        while text not in shown:
            assert self._process.poll() is None and time.monotonic() < end, shown
            shown += self._read(1)
        return shown

    def type(self, keys, then=b"\n> "):
        """Send keys, wait until `then` is shown, and return everything that was shown."""
        os.write(self._ours, keys)
        return self.expect(then)

    def leave(self, keys):
        """Send keys that end the program; return its exit status and what it still showed."""
        os.write(self._ours, keys)
        status, rest = self._process.wait(60), b""
        while part := self._read(0):
            rest += part
        return status, rest

    def _read(self, seconds):
        ready = select.select([self._ours], [], [], seconds)[0]
        return os.read(self._ours, 4096) if ready else b""

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._ours)
        os.close(self._theirs)
