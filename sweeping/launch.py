"""Becomes another program, on some cores alone, that is asked to stop when its parent dies.

    python sweeping/launch.py PARENT 0,1 train.py --config=...

A file of its own, run before the program: what a child of many threads may do between fork and exec
is next to nothing.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # sys/prctl.h


def main() -> None:
    parent, cores, *command = sys.argv[1:]
    if sys.platform == "linux":
        if cores:
            os.sched_setaffinity(0, map(int, cores.split(",")))
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it died before
            sys.exit(128 + signal.SIGTERM)
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
