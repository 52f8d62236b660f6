"""Run the programs in forked processes, which do not have to import JAX again.

`warm_up` imports the modules of the programs without initializing JAX. JAX has then no backend and
no threads, so a forked process can use it as a new process would.
"""

import atexit
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MODULES = (
    "experiment", "decoding.translator", "evaluation.links", "sweeping.study", "sweeping.watch",
    "sweeping.leaderboard", "sweeping.pictures", "tensorboardX", "sacrebleu", "program",
    "exporting.run", "exporting.safetensors_files", "safetensors.numpy",
)  # fmt: skip


def warm_up(compilations: Path) -> None:
    """Import the modules of all programs; compiled programs are cached in `compilations`."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(compilations))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["XLA_FLAGS"] = (
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    )
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()  # otherwise, garbage collections of forked processes copy the memory of all modules


@dataclasses.dataclass
class Ended:
    """How a program ended: its exit status (negative: the signal that ended it) and its output."""

    status: int
    stdout: str
    stderr: str
    hung: bool  # whether the program was killed because it exceeded its time limit


class Process:
    """A program that runs in a forked process, with `folder` as its working directory."""

    def __init__(
        self,
        folder: Path,
        program: str,
        flags: Sequence[str],
        stdin: str = os.devnull,
        before: Callable[[], object] | None = None,
    ):
        """Start the program; the new process calls `before` first."""
        # The output is written outside of the folder, which may be a full disk.
        stem = folder.parent / f"{time.monotonic_ns()}.{program}"
        self._outputs = [f"{stem}.stdout", f"{stem}.stderr"]
        self.began = time.monotonic()
        self.pid, self._status = os.fork(), None
        if self.pid:
            return
        try:
            os.setsid()
            os.chdir(folder)
            home = {"HOME": f"{folder}/home"} | {
                name: f"{folder}/home/{name}" for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME")
            }
            os.environ.update(home)
            redirect(stdin, *self._outputs)
            if before:
                before()
            status = run_main(program, flags)
        except BaseException:
            traceback.print_exc()
            status = 1
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)

    def alive(self) -> bool:
        """Return whether the process is still running."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is None

    def wait(self, until: Callable[[], bool] = lambda: False, seconds: float = 1e9) -> bool:
        """Wait at most `seconds` for the end of the process; return whether it has ended.

        Return earlier if the condition `until` becomes true.
        """
        end = time.monotonic() + seconds
        while self.alive() and time.monotonic() < end and not until():
            time.sleep(0.002)
        return not self.alive()

    def send(self, number: int) -> None:
        """Send a signal to the process, if it is still running."""
        if self.alive():
            os.kill(self.pid, number)

    def end(self, limit: float = 0) -> Ended:
        """Wait for the end of the process, at most `limit` seconds; then kill its process group."""
        hung = not self.wait(seconds=limit)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        out, err = (Path(name).read_text("utf-8", errors="replace") for name in self._outputs)
        assert self._status is not None
        return Ended(self._status, out, err, hung)


def isolated(function: Callable[[], Any]) -> Any:
    """Return the JSON result of a function that is called in a forked process.

    Functions that start threads must be called in this way, because a process with threads cannot
    fork safely.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(writer, json.dumps(function()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        content = file.read()
    os.waitpid(pid, 0)
    return json.loads(content)


def redirect(*names: str) -> None:
    """Redirect standard input, output and error of this process to files."""
    for number, name in enumerate(names):
        flags = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
        file = os.open(name, flags, 0o644)
        os.dup2(file, number)
        os.close(file)


def run_main(program: str, flags: Sequence[str]) -> int:
    """Run a program as the interpreter does, including the work at its end; return its status."""
    # In the folder of the repository, a user types only the name of the program.
    path = program if Path.cwd() == ROOT else str(ROOT / program)
    sys.argv, status = [path, *flags], 0
    sys.path.insert(0, str(ROOT))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    return status
