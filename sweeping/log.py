"""Read the lines of a run's log.jsonl, and check the types of their values."""

import json
from pathlib import Path
from typing import Any

from reading import DamagedFile, matching, read_bytes, reading

Entry = dict[str, Any]
REMOVE = "remove the folder of the run to train it again"
_NUMBER = int | float | None  # null stands for NaN and infinity
# The types of values in lines of the kinds "run" and "train" that sweeps and reproductions use.
_TYPES = {"step": int, "time": float, "parameters": int, "count": float, "count_per_second": float}


def read_log(path: Path) -> tuple[list[Entry], str]:
    """Return the valid lines of a log, and a message about its first damaged line, or "".

    The last line is ignored if it does not end in a line feed: train.py may still be writing it.
    """
    # Do not use splitlines(): it would also split at U+2028, which samples in the log may contain.
    lines = read_bytes(path, REMOVE).split(b"\n")[:-1]
    entries, problem = [], ""
    for number, line in enumerate(lines, 1):
        try:
            with reading(path, REMOVE):
                entries.append(_parse(line, number))
        except DamagedFile as error:
            problem = problem or str(error)
    return entries, problem


def _parse(line: bytes, number: int) -> Entry:
    place = f"line {number}"
    try:
        entry = json.loads(line)
    except ValueError:
        raise ValueError(f"{place} is not valid JSON") from None
    kind = matching(entry, {"kind": str}, place)["kind"]
    matching(entry, {name: of_type for name, of_type in _TYPES.items() if name in entry}, place)
    if kind == "valid":
        scores = {name: value for name, value in entry.items() if name != "kind"}
        matching(scores, {str: _NUMBER}, place)
    return entry
