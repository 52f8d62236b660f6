"""A thread that runs jobs with models one after another, and a queue of limited length."""

import collections
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import jax

from errors import first_line

logger = logging.getLogger("alignax")
MOST_ADDRESSES = 1024  # clients whose requests are counted


class Busy(Exception):
    """Raised when too many jobs are waiting."""


class ModelWorker:
    """Runs jobs in one thread, in the order of their submission.

    While no job is waiting, it runs the `warm_ups`, which compile programs. `on_progress` is called
    after each of them.
    """

    def __init__(
        self,
        limit: int,
        warm_ups: Sequence[Callable[[], Any]] = (),
        on_progress: Callable[[int], None] = lambda done: None,
    ):
        self._limit, self._on_progress = limit, on_progress
        self._warm_ups = collections.deque(warm_ups)
        self.total = len(warm_ups)  # number of warm-ups
        self.done = 0
        self.compiling = ""  # the name of the present job, once it needs a program to be compiled
        self._present = ""  # the name of the present job
        self._jobs: collections.deque[tuple[Future, Callable[[], Any], str]] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        # A daemon thread does not delay the end of the program.
        self._thread = threading.Thread(target=self._run, name="models", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread after its present job; cancel the others."""
        with self._changed:
            self._closed = True
            for future, *_ in self._jobs:
                future.cancel()
            self._changed.notify()
        self._thread.join()

    def submit(self, job: Callable[[], Any], name: str = "") -> Future:
        """Add a job; raise Busy if too many are waiting. A canceled future is not run.

        From the first compilation of the job until its end, `compiling` is its name.
        """
        future: Future = Future()
        with self._changed:
            if len(self._jobs) >= self._limit:
                waiting = [entry for entry in self._jobs if not entry[0].cancelled()]
                self._jobs = collections.deque(waiting)
            if len(self._jobs) >= self._limit:
                raise Busy
            self._jobs.append((future, job, name))
            self._changed.notify()
        return future

    def _run(self) -> None:
        jax.monitoring.register_event_duration_secs_listener(self._on_event)
        try:
            self._run_jobs()
        finally:
            jax.monitoring.unregister_event_duration_listener(self._on_event)

    def _on_event(self, event: str, duration_secs: float, **details: Any) -> None:
        """Notice that JAX has traced a function, which comes before its compilation."""
        if event.startswith("/jax/core/compile/") and threading.current_thread() is self._thread:
            self.compiling = self._present

    def _run_jobs(self) -> None:
        while True:
            with self._changed:
                while not (self._jobs or self._warm_ups or self._closed):
                    self._changed.wait()
                if self._closed:
                    return
                future, job, self._present = (
                    self._jobs.popleft() if self._jobs else (None, None, "")
                )
                warm_up = None if future else self._warm_ups.popleft()
            if warm_up:
                self._warm_up(warm_up)
            elif future and job and future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except Exception as error:  # the request that waits for the future reports it
                    future.set_exception(error)
            self.compiling = self._present = ""
            # Do not keep the last answer in memory while waiting for the next job.
            del future, job, warm_up

    def _warm_up(self, job: Callable[[], Any]) -> None:
        try:
            job()
        except Exception as error:  # requests that need the same program report the error
            logger.warning("a program could not be compiled in advance: %s", first_line(error))
        self.done += 1
        self._on_progress(self.done)


class RateLimit:
    """Limits the requests of each client: `rate` per second on average, `burst` at once."""

    def __init__(self, rate: float, burst: float):
        self._rate, self._burst = rate, burst
        # Per address: the requests that are left, and the time when they were counted.
        self._left: collections.OrderedDict[str, tuple[float, float]] = collections.OrderedDict()

    def wait(self, address: str) -> float:
        """Count a request; return 0, or the seconds to wait if it is one too many."""
        now = time.monotonic()
        left, then = self._left.pop(address, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._left[address] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MOST_ADDRESSES:
            self._left.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._rate
