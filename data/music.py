"""Piano rolls in MATLAB files: one row per frame, and one column per key of a piano."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from errors import UserError

NOTES = 88  # notes per music frame: the number of keys of a piano
_ADVICE = "correct the file, or download it again"


def mat_variables(file: Path | io.BytesIO, name: str) -> list[str]:
    """Return the names of the variables in a MATLAB file; `name` is for error messages."""
    import scipy.io  # imported here: only music corpora need scipy.io

    with _readable(name):
        return [variable for variable, *_ in scipy.io.whosmat(file)]


def mat_arrays(
    file: Path | io.BytesIO, name: str, variable: str
) -> Iterator[tuple[np.ndarray, str]]:
    """Yield the arrays of a variable, a cell array, and their places for error messages."""
    import scipy.io

    with _readable(name):
        cells = scipy.io.loadmat(file, variable_names=[variable])[variable]
    if cells.dtype != object:  # a single array instead of a cell array
        cells = np.array([None, cells], object)[1:]
    for number, array in enumerate(cells.ravel()):
        yield array, f"{name}, {variable} {number}"


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    from scipy.io.matlab import MatReadError

    try:
        yield
    except (ValueError, TypeError, NotImplementedError, OSError, MatReadError) as error:
        raise UserError(f"{name} is not a MATLAB file ({error}): download it again") from None


def check_roll(value: Any, place: str, least: int = 1) -> np.ndarray:
    """Check the frames of a piano roll, and return them as an array of bytes."""
    frames = np.asarray(value)
    if frames.ndim != 2 or frames.shape[1] != NOTES or len(frames) < least:
        raise UserError(
            f"{place}: expected at least {least} frames of {NOTES} notes, found an array of shape "
            f"{' × '.join(map(str, frames.shape))}: {_ADVICE}"
        )
    if not np.isin(frames, (0, 1)).all():
        raise UserError(
            f"{place}: the values of a piano roll must be 0 (silent) or 1 (sounding), but the "
            f"array has other values: {_ADVICE}"
        )
    return frames.astype(np.uint8)
