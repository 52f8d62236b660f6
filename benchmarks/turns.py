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

from benchmarks.measure import REPEATS, time_round
from errors import first_line

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
    # JAX would otherwise reserve most of a GPU's memory for each process.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
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


def _time(pipes: Mapping[str, Connection]) -> dict[str, dict[str, Timed]]:
    """Wait until all processes are ready, then time their functions in turn."""
    began, ready = time.perf_counter(), dict[str, dict[str, dict]]()
    for name, pipe in pipes.items():
        facts = _receive(pipe)
        if isinstance(facts, str):
            print(f"{name}: failed ({facts})", flush=True)
        else:
            ready[name] = facts
            print(f"{name}: ready after {time.perf_counter() - began:.0f} s", flush=True)
    rounds = {(name, key): list[float]() for name, facts in ready.items() for key in facts}
    for _ in range(REPEATS):
        for (name, key), seconds in rounds.items():
            pipes[name].send(key)
            seconds.append(_receive(pipes[name]))
    return {
        name: {key: Timed(statistics.median(rounds[name, key]), facts[key]) for key in facts}
        for name, facts in ready.items()
    }


def _receive(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        return "the process ended without a message"


def _work(pipe: Connection, cores: Any, prepare: Prepare) -> None:
    """Prepare functions, send their facts, and time one round of each function that is asked for.

    At most one process per CPU core prepares its functions at a time. If that fails, send a text.
    """
    try:
        with cores:
            prepared = prepare()
            for function in prepared.values():
                function.run(WARM_UP)
        pipe.send({key: function.facts for key, function in prepared.items()})
    except Exception as error:  # torch.compile raises many types of exceptions
        pipe.send(first_line(error))
        return
    while True:
        pipe.send(time_round(prepared[pipe.recv()].run))
