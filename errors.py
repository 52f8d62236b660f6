"""The two ways in which a program ends before its end, and what libraries say in many lines."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any


class UserError(Exception):
    """Something a user can put right; programs print it as one sentence, without a traceback."""


class Stopped(Exception):
    """A signal ended a run; all of it is saved."""

    def __init__(self, number: int, saved: str):
        name = signal.Signals(number).name
        super().__init__(f"{name}: {saved}; the same command goes on from here")
        self.number = number


def first_line(error: BaseException) -> str:
    """As much of an error as fits into a sentence."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


@contextlib.contextmanager
def stop_signals(message: str) -> Iterator[list[int]]:
    """A list that SIGINT and SIGTERM put themselves into; a second signal acts at once."""
    received: list[int] = []
    previous = {}

    def handle(number: int, frame: Any) -> None:
        sys.stderr.write(f"\n{signal.Signals(number).name}: {message}\n")
        received.append(number)
        signal.signal(number, previous[number])

    try:
        if threading.current_thread() is threading.main_thread():  # the only one to hear signals
            for number in (signal.SIGINT, signal.SIGTERM):
                previous[number] = signal.signal(number, handle)
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
