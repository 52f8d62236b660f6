"""Run train.py or predict.py up to its first result, and print the seconds of each phase as JSON.

python -m benchmarks.startup_process BEGAN train --config=configs/luong2015.py --workdir=runs/a

`python -m benchmarks.startup` starts this process; BEGAN is the time.time() at which it does. The
program ends after the first training step, or after the first translation.
"""

import builtins
import collections
import functools
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

IMPORTS, DATA, MODEL, COMPILATION, FIRST, REST = (
    "imports", "config and corpus", "model", "compilation", "first result", "rest",
)  # fmt: skip
# The functions whose time is that of a phase, without the phases of the functions that they call.
PHASES = {
    "train": {
        "program:_parse_flags": DATA,
        "program:checked_config": DATA,
        "experiment:make_task": DATA,
        "training.loop:initial_state": MODEL,
        "training.loop:Trainer.compile": COMPILATION,
        "training.loop:Trainer.run": FIRST,
    },
    "predict": {
        "program:_parse_flags": DATA,
        "training.workdir:load_config": DATA,
        "training.restore:make_task": DATA,
        "training.restore:Checkpoints.restore_params": MODEL,
        "training.devices:compile_all": COMPILATION,
        "evaluation.translation_stream:TranslationStream.translate_all": FIRST,
    },
}
# The functions that compute the first result.
ENDS = {
    "train": "training.loop:CompiledStep.__call__",
    "predict": "evaluation.translation_stream:TranslationStream._write",
}


class Clock:
    """Adds up the seconds of phases; the main thread is in one phase at any time."""

    def __init__(self, began: float):
        self.seconds = collections.defaultdict[str, float](float)
        self._phase, self._since = IMPORTS, began

    def switch(self, phase: str) -> str:
        """Begin a phase; return the one that ends."""
        now, before = time.time(), self._phase
        self.seconds[before] += now - self._since
        self._phase, self._since = phase, now
        return before

    def timed(self, function: Callable, phase: str) -> Callable:
        """Wrap a function so that its time in the main thread is added to a phase."""

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*arguments, **options)
            before = self.switch(phase)
            try:
                return function(*arguments, **options)
            finally:
                self.switch(before)

        return call

    def ending(self, function: Callable) -> Callable:
        """Return the function as one that prints the seconds and ends the process."""

        def call(*arguments: Any) -> None:
            importlib.import_module("jax").block_until_ready(function(*arguments))
            self.switch(REST)
            print(json.dumps(self.seconds), flush=True)
            os._exit(0)

        return call


def replace(path: str, change: Callable[[Callable], Callable]) -> None:
    """Replace a function, given as "module:function" or "module:Class.method"."""
    module, _, name = path.partition(":")
    *parents, last = name.split(".")
    owner: Any = importlib.import_module(module)
    for parent in parents:
        owner = getattr(owner, parent)
    setattr(owner, last, change(getattr(owner, last)))


def main() -> None:
    """Run the program that the arguments name, with timed functions."""
    began, name, *words = sys.argv[1:]
    clock, sys.argv = Clock(float(began)), [f"{name}.py", *words]
    builtins.__import__ = clock.timed(builtins.__import__, IMPORTS)
    run_program, run = importlib.import_module(name).main, importlib.import_module("program").run

    def timed_main() -> None:
        for path, phase in PHASES[name].items():
            if path != "program:_parse_flags":
                replace(path, lambda function, phase=phase: clock.timed(function, phase))
        replace(ENDS[name], clock.ending)
        clock.switch(REST)
        run_program()

    replace("program:_parse_flags", lambda function: clock.timed(function, DATA))
    run(timed_main)


if __name__ == "__main__":
    main()
