"""Helpers that run the programs as a user does, each in a separate process."""

import atexit
import functools
import json
import os
import pty
import select
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from faults.processes import MODULES

ROOT = Path(__file__).parent.parent
# Tests spend most of their time on compilation, so XLA's optimizations are disabled.
FAST = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
# The default fusion emitters of jaxlib 0.10 make compilation three times slower.
if version("jaxlib").startswith("0.10."):
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

# Flags for tests of several processes: a network with dropout that compiles quickly and has a
# matrix large enough to be sharded over devices.
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

ENVIRONMENT = os.environ | {"XLA_FLAGS": FAST}  # tests/conftest.py adds the cache folder


class ProgramServer:
    """A process that runs programs in forks, so that they need not import `modules` again."""

    def __init__(self, *modules, **environment):
        command = [sys.executable, "tests/program_server.py", *modules]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT | environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def close(self):
        """End the process."""
        self._process.communicate()

    def run(self, program, flags, stdin=b""):
        """Run a program with the given input; return the completed process."""
        with tempfile.TemporaryDirectory() as folder:
            given, printed, messages = (Path(folder) / name for name in ("in", "out", "err"))
            given.write_bytes(stdin)
            files = [str(given), str(printed), str(messages)]
            job = {"program": program, "flags": flags, "files": files}
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            outputs = (path.read_text("utf-8") for path in (printed, messages))
            return subprocess.CompletedProcess([program, *flags], status, *outputs)


# Modules that the programs import, and that import JAX.
_MODULES = (*MODULES, "evaluation.page", "evaluation.streams", "matplotlib.pyplot")


@functools.cache
def _server():
    server = ProgramServer(*_MODULES)
    atexit.register(server.close)
    return server


def call(program, *flags, check=True, new=False, stdin=b"", **environment):
    """Run a program and return the completed process; with `check`, it must succeed.

    The program runs in a fork of a process that has imported its modules, or in a new process if
    `new` is set or if variables of the environment are given.
    """
    if new or environment:
        done = subprocess.run(
            [sys.executable, program, *flags], cwd=ROOT, capture_output=True, text=True,
            timeout=300, env=ENVIRONMENT | environment, input=stdin.decode(),
        )  # fmt: skip
    else:
        done = _server().run(program, flags, stdin)
    if check:
        assert done.returncode == 0, done.stderr
    return done


class Conversation:
    """A process whose input, output and controlling terminal are a pseudo-terminal."""

    def __init__(self, *command):
        self._ours, self._theirs = pty.openpty()
        name = os.ttyname(self._theirs)
        # The shell opens the terminal by name, which makes it the controlling terminal, so that
        # Ctrl-C sends SIGINT to the program.
        line = f"exec {shlex.join(command)} <{name} >{name} 2>&1"
        self._process = subprocess.Popen(
            ["sh", "-c", line], cwd=ROOT, env=ENVIRONMENT | {"TERM": "xterm"},
            start_new_session=True,
        )  # fmt: skip

    def expect(self, text):
        """Wait until the program has printed `text`; return all output since the last call."""
        shown, end = b"", time.monotonic() + 300
        while text not in shown:
            assert self._process.poll() is None and time.monotonic() < end, shown
            shown += self._read(1)
        return shown

    def type(self, keys, then=b"\n> "):
        """Send keys, wait until `then` is printed, and return all output since the last call."""
        os.write(self._ours, keys)
        return self.expect(then)

    def leave(self, keys):
        """Send keys that end the program; return its exit status and its remaining output."""
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
