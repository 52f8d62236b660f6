"""Errors that programs print without a traceback, and functions that raise or handle them."""

import contextlib
import difflib
import importlib.util
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any


class UserError(Exception):
    """A mistake that a user can correct; programs print its message without a traceback."""


class Stopped(Exception):
    """Raised when a signal has stopped the program and its state is saved."""

    def __init__(self, number: int, saved: str):
        name = signal.Signals(number).name
        super().__init__(f"{name}: {saved}; run the same command again to continue")
        self.number = number


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


def suggest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean ...? " with the known names that are similar to `name`, or "".

    A name is similar if its last part equals `name`, or if the initials of the words of that part
    do: lr matches optimizer.learning_rate. If there is none, the spelling of the whole names
    decides, and then the spelling of their last parts. Case is ignored.
    """
    wanted, lowered = name.lstrip("-").lower(), {full.lower(): full for full in known}
    lasts = {full: full.rpartition(".")[2] for full in lowered}
    close = [full for full, last in lasts.items() if wanted in (last, _initials(last))]
    close = close or difflib.get_close_matches(name.lower(), lowered, cutoff=0.7)
    if not close:
        spelled = difflib.get_close_matches(wanted, {*lasts.values()}, cutoff=0.8)
        close = [full for full, last in lasts.items() if last in spelled]
    found = [lowered[full] for full in close[:3]]
    return f"did you mean {' or '.join(found)}? " if found else ""


def _initials(name: str) -> str:
    words = name.split("_")
    return "".join(word[:1] for word in words) if len(words) > 1 else ""


def require_packages(user: str, *names: str) -> None:
    """Raise a UserError if a package that `user` needs is not installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise UserError(
            f"{user} needs {' and '.join(missing)}, which {verb} not installed: "
            "pip install -r requirements.txt"
        )


@contextlib.contextmanager
def stop_signals(message: str) -> Iterator[list[int]]:
    """Yield a list to which SIGINT and SIGTERM append their numbers instead of ending the program.

    `message` is printed when a signal arrives. A second signal of the same kind ends the program.
    """
    received: list[int] = []
    previous = {}

    def handle(number: int, frame: Any) -> None:
        sys.stderr.write(f"\n{signal.Signals(number).name}: {message}\n")
        received.append(number)
        signal.signal(number, previous[number])

    try:
        # Python allows signal handlers to be set in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                previous[number] = signal.signal(number, handle)
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
