"""Classify how a program ended, and compare its results with those of an undamaged run."""

import collections
import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from faults.processes import Ended

SAME, CLEAR, TRACEBACK, SILENT, HANG = OUTCOMES = (
    "same result", "clear message", "traceback", "silent difference", "hang",
)  # fmt: skip
GOOD = (SAME, CLEAR)
# A different result is not silent if the program says which file is not as it should be.
WARNING = re.compile(r"corrupt|damaged|missing|differs|does not match|cannot read|has changed")


class Outcome(NamedTuple):
    """The outcome of one case."""

    group: str
    case: str
    program: str
    kind: str  # one of OUTCOMES
    detail: str  # the last lines of the output if it is not the same result
    # Whether the fault was removed before the program ran, so that only SAME is a good outcome.
    repaired: bool = False

    @property
    def good(self) -> bool:
        """Whether nothing is lost, and the program does what docs/durability.md promises."""
        return self.kind in ((SAME,) if self.repaired else GOOD)


def classify(ended: Ended, result: Any, expected: Any, may_differ: bool = False) -> tuple[str, str]:
    """Return the kind of an outcome, and the end of the program's output.

    `result` is what the program produced, and `expected` the result of an undamaged run. A program
    that `may_differ` can use another checkpoint than the best one if it prints a warning.
    """
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    if ended.hung:
        kind = HANG
    elif "Traceback (most recent call last)" in ended.stderr or ended.status < 0:
        kind = TRACEBACK
    elif ended.status:
        kind = CLEAR if _is_message(lines) else TRACEBACK
    elif result == expected:
        return SAME, ""
    else:
        kind = CLEAR if may_differ and WARNING.search(ended.stderr) else SILENT
    first = next((i for i, line in enumerate(lines) if line.startswith("Traceback")), 0)
    ends = [lines[-3:]] if kind != TRACEBACK else [lines[first : first + 2], lines[-6:]]
    shown = "\n...\n".join("\n".join(part)[-1500:] for part in ends)
    return kind, f"exit status {ended.status}\n{shown}"


def _is_message(lines: list[str]) -> bool:
    """Return whether the output ends in a message of at most two lines: `error: ...`."""
    return any(line.startswith("error: ") for line in lines[-2:])


def train_result(workdir: Path, step: int) -> Any:
    """Return digests of the arrays of the final checkpoint, and the progress in its record."""
    folder = workdir / "checkpoints" / str(step)
    try:
        record = json.loads((folder / "record/metadata").read_bytes())
        return record["progress"], record["checksums"], _arrays(folder / "state")
    except Exception as error:  # whatever the error is, the run has no readable result
        return f"unreadable: {type(error).__name__}: {error}"


def _arrays(folder: Path) -> dict[str, str]:
    """Read the arrays of a checkpoint with TensorStore; return a digest of each by its name."""
    import tensorstore as ts

    entries = json.loads((folder / "_METADATA").read_bytes())["tree_metadata"].values()
    digests = {}
    for entry in entries:
        if entry["value_metadata"]["value_type"] != "jax.Array":
            continue  # an empty part of the train state
        name = ".".join(key["key"] for key in entry["key_metadata"])
        base = {"driver": "file", "path": f"{folder.absolute()}/"}
        store = {"driver": "ocdbt", "base": base, "path": name}
        array = ts.open({"driver": "zarr", "kvstore": store}).result().read().result()
        digests[name] = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    return digests


def eval_result(folder: Path) -> Any:
    """Return the scores and the hypotheses that eval.py has written to a folder."""
    try:
        scores = json.loads((folder / "scores.json").read_bytes())
        return scores["scores"], (folder / "hypotheses.txt").read_text()
    except (OSError, ValueError, KeyError) as error:
        return f"unreadable: {error}"


def export_result(folder: Path) -> Any:
    """Return digests of all files that export.py has written to a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(p.relative_to(folder)), hashlib.sha256(p.read_bytes()).hexdigest()) for p in paths]


def outcome_table(outcomes: list[Outcome]) -> str:
    """Return a Markdown table: the number of cases of each kind, per group and in total."""
    counts: dict[str, collections.Counter[str]] = {}
    for outcome in outcomes:
        counts.setdefault(outcome.group, collections.Counter())[outcome.kind] += 1
    rows = [("faults", "cases", *OUTCOMES), ("---", *["---:"] * (1 + len(OUTCOMES)))]
    total: collections.Counter[str] = collections.Counter()
    for group, count in counts.items():
        rows.append((group, str(count.total()), *(str(count[kind]) for kind in OUTCOMES)))
        total += count
    rows.append(("all", str(total.total()), *(str(total[kind]) for kind in OUTCOMES)))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
