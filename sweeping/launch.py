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

PR_SET_PDEATHSIG = 1  # prctl option (sys/prctl.h): the signal to get when the parent dies


def main() -> None:
    """Restrict this process to the given cores, then replace it by the given program."""
    parent, cores, *command = sys.argv[1:]
    if sys.platform == "linux":
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # the parent died before prctl, so no signal will come
            sys.exit(128 + signal.SIGTERM)
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
