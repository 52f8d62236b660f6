"""The two ways in which a program ends before its end, and what libraries say in many lines."""

import signal


class UserError(Exception):
    """Something a user can put right; programs print it as one sentence, without a traceback."""


class Stopped(Exception):
    """A signal ended a run; all of it is saved."""

    def __init__(self, number: int, step: int):
        name = signal.Signals(number).name
        super().__init__(f"{name}: saved after step {step:,}; the same command goes on from here")
        self.number = number


def first_line(error: BaseException) -> str:
    """As much of an error as fits into a sentence."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
