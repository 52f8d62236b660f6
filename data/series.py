"""Check the numbers of time series."""

import math
from typing import Any

import numpy as np

from errors import UserError


def parse_number(text: str, place: str) -> float:
    """Parse a finite number; `place` is the file and the line, for the error message."""
    try:
        number = float(text)
        if math.isfinite(number):
            return number
    except ValueError:
        pass
    raise UserError(
        f"{place}: {text.strip()[:40]!r} is not a finite number: correct the line, and separate "
        "series by blank lines"
    )


def check_series(value: Any, place: str) -> np.ndarray:
    """Check the numbers of a series, and return them as an array [time, 1]."""
    try:
        x = np.asarray(value, np.float32).reshape(-1, 1)
    except (TypeError, ValueError):
        x = np.full((1, 1), np.nan)
    if not np.isfinite(x).all():
        raise UserError(f"{place}: a series must be a list of finite numbers: correct the series")
    return x
