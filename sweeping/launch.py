"""Replace this process by another Python program that stops when its parent dies.

    python sweeping/launch.py PARENT 0,1 train.py --config=...

The program runs on the given cores only, and receives SIGTERM when the process PARENT dies. This is
a separate program because almost nothing is safe between fork and exec in a parent with threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # from sys/prctl.h


def main() -> None:
    parent, cores, *command = sys.argv[1:]
    if sys.platform == "linux":
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # the parent died before prctl was called
            sys.exit(128 + signal.SIGTERM)
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
