"""Time functions in separate processes, which are prepared side by side and timed in turn.

PyTorch needs minutes to compile a recurrent model, so the processes compile at the same time. No
function is timed before all of them are ready, because compilation would disturb the timing. In
each round, all functions are timed once, so a change of the machine's speed affects all of them.
"""

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import jax

from benchmarks.measure import REPEATS, time_round
from errors import first_line
from program import keep_freed_memory

# JAX would otherwise reserve most of a GPU's memory for the first process that uses it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
WARM_UP = 3  # number of calls before the first round; CUDA graphs are recorded in the second call


class Prepared(NamedTuple):
    """A function that is ready to be timed."""

    run: Callable[[int], None]  # calls the function n times and waits for the last result
    facts: dict[str, Any] = {}  # what is known before the function is timed


class Timed(NamedTuple):
    """Time per call, as the median over rounds, and the facts of the prepared function."""

    seconds: float
    facts: dict[str, Any]


# Prepares functions by their names, in a new process. It must be picklable.
Prepare = Callable[[], Mapping[str, Prepared]]


def time_in_turn(prepares: Mapping[str, Prepare]) -> dict[str, dict[str, Timed]]:
    """Time the functions of several processes; return the results by process and function.

    A process that fails is left out, and its error is printed.
    """
    context = multiprocessing.get_context("spawn")
    cores = context.Semaphore(os.cpu_count() or 1)
    processes, pipes = [], {}
    try:
        for name, prepare in prepares.items():
            pipes[name], pipe = context.Pipe()
            process = context.Process(target=_work, args=(pipe, cores, prepare))
            process.start()
            pipe.close()
            processes.append(process)
        return _time(pipes)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()  # until then, it holds memory of the GPU


def _time(pipes: Mapping[str, Connection]) -> dict[str, dict[str, Timed]]:
    """Wait until all processes are ready, then time their functions in turn."""
    began, ready = time.perf_counter(), dict[str, dict[str, dict]]()
    for name, pipe in pipes.items():
        facts = _receive(name, pipe)
        if facts is not None:
            ready[name] = facts
            print(f"{name}: ready after {time.perf_counter() - began:.0f} s", flush=True)
    rounds = {name: {key: list[float]() for key in facts} for name, facts in ready.items()}
    for _ in range(REPEATS):
        for name in list(rounds):
            if not _time_round(name, pipes[name], rounds[name]):
                del rounds[name]
    return {
        name: {key: Timed(statistics.median(times[key]), ready[name][key]) for key in times}
        for name, times in rounds.items()
    }


def _time_round(name: str, pipe: Connection, times: Mapping[str, list[float]]) -> bool:
    """Time all functions of a process once; return False if the process fails."""
    for key, seconds in times.items():
        found = _receive(name, pipe, key)
        if found is None:
            return False
        seconds.append(found)
    return True


def _receive(name: str, pipe: Connection, request: str = "") -> Any:
    """Send a request, if there is one, to a process; return what the process sends.

    If the process sends an error or ends, print that and return None.
    """
    try:
        if request:
            pipe.send(request)
        message, error = pipe.recv()
    except (EOFError, OSError):
        message, error = None, "the process ended without a message"
    if error:
        print(f"{name}: failed ({error})", flush=True)
    return message


def _work(pipe: Connection, cores: Any, prepare: Prepare) -> None:
    """Prepare functions, send their facts, and time one round of each function that is asked for.

    At most one process per CPU core prepares its functions at a time, not counting its children.
    Every message is a pair of a result and an error.
    """
    keep_freed_memory()  # as in all programs of this project
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        with cores:
            prepared = prepare()
            for function in prepared.values():
                function.run(WARM_UP)
        pipe.send(({key: function.facts for key, function in prepared.items()}, ""))
        while True:
            pipe.send((time_round(prepared[pipe.recv()].run), ""))
    except Exception as error:  # torch.compile raises many types of exceptions
        pipe.send((None, first_line(error)))
