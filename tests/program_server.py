"""Run programs in forks of this process, which first imports the modules that its arguments name.

Each line of standard input is a JSON object {"program", "flags", "files"}, with the names of the
files for standard input, output and error of the program. The answer is one line: its exit status.
"""

import gc
import importlib
import json
import os
import sys
import time
import warnings
from pathlib import Path

sys.path[0] = str(Path(__file__).parent.parent)

from faults.processes import redirect, run_main  # noqa: E402

SECONDS = 300


def serve(program: str, flags: list[str], files: list[str]) -> int:
    """Run a program in a fork and return its exit status; kill it after `SECONDS`."""
    child = os.fork()
    if not child:
        redirect(*files)
        os._exit(run_main(program, flags))
    end = time.monotonic() + SECONDS
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, 9)
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(found[1])


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    # os.fork warns about the threads of JAX, but forking is safe before any computation.
    warnings.filterwarnings("ignore", ".*fork")
    for line in sys.stdin:
        print(serve(**json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
