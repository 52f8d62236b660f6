"""Run a Python program that is stopped when its parent process dies.

    python sweeping/launch.py PARENT 0,1 train.py --config=...

The program runs only on the given CPU cores, and receives SIGTERM when the process with the id
PARENT dies. This is a separate program, because a parent process with threads (the sweep) can
safely do almost nothing in the child between fork and exec.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # prctl option (sys/prctl.h): the signal to get when the parent dies


def tie_to_parent(parent: int, cores: Sequence[int], death_signal: signal.Signals) -> None:
    """Restrict this process to the given cores; let it get `death_signal` when its parent dies.

    Without cores, it keeps all of them. This function does nothing on systems other than Linux.
    """
    if sys.platform != "linux":
        return
    if cores:
        os.sched_setaffinity(0, cores)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:  # the parent died before prctl, so no signal will come
        sys.exit(128 + death_signal)


def main() -> None:
    """Tie this process to its parent, then replace it by the given program."""
    parent, cores, *command = sys.argv[1:]
    tie_to_parent(int(parent), [int(core) for core in cores.split(",") if core], signal.SIGTERM)
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
