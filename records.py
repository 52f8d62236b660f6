"""JSON for files that people read: rounded floats, and null instead of NaN and infinity."""

import json
import math
from typing import Any

DIGITS = 6  # floats in JSON files are rounded to this many significant digits


def to_json(value: Any, indent: int | None = None, compact: bool = False) -> str:
    """Return `value` as JSON text with floats rounded to DIGITS significant digits.

    Rounding never removes the integer part or the first decimal, so counts and times stay exact.
    NaN and infinity, which JSON does not have, become null. Use `json.dumps` where a value must be
    read back exactly, such as in a digest.
    """
    separators = (",", ":") if compact else None
    return json.dumps(_rounded(value), indent=indent, ensure_ascii=False, separators=separators)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(x) for x in value]
    return _round(value) if isinstance(value, float) else value


def _round(x: float) -> float | None:
    if not math.isfinite(x):
        return None
    if x == 0:
        return x
    decimals = DIGITS - 1 - math.floor(math.log10(abs(x)))
    return round(float(x), max(1, decimals))
