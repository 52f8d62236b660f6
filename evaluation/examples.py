"""The file examples.jsonl of a report: every example of a split with its prediction.

compare.py reads this file, and so can other programs. It has one JSON object per line, in the order
of the corpus.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.bootstrap import EXAMPLE_SCORES
from reading import matching, read_lines, reading
from writing import to_json, write_text

EXAMPLES_FILE = "examples.jsonl"
_EXAMPLE = {"text": str, "references": [str], "prediction": str, "statistics": {str: [float]}}


class ScoredExample(NamedTuple):
    """One example of a split."""

    text: str  # the source sentence, the text, the words of a sentence or the query
    references: list[str]
    prediction: str
    # The numbers from which a score is computed, by the name of the score in scores.json: the score
    # of a set of examples depends only on the sums of these numbers; see evaluation/bootstrap.py.
    statistics: Mapping[str, Sequence[float]]

    @property
    def correct(self) -> bool:
        """Whether the prediction counts as right in the exact match or the accuracy."""
        right, count = self.statistics.get("exact") or self.statistics.get("accuracy") or (0, 1)
        return right == count


def write_examples(folder: Path, examples: Iterable[ScoredExample]) -> None:
    """Write examples.jsonl to a report; an earlier file is deleted if there are no examples."""
    lines = [to_json(example._asdict()) for example in examples]
    path = folder / EXAMPLES_FILE
    path.unlink(missing_ok=True)
    if lines:
        write_text(path, "".join(f"{line}\n" for line in lines))


def read_examples(folder: Path, remedy: str) -> list[ScoredExample]:
    """Read examples.jsonl of a report; errors end in `remedy`."""
    path = folder / EXAMPLES_FILE
    found = []
    for number, line in enumerate(read_lines(path, remedy), 1):
        with reading(path, remedy):
            entry = matching(json.loads(line), _EXAMPLE, f"line {number}")
            for name, numbers in entry["statistics"].items():
                width = EXAMPLE_SCORES[name].width if name in EXAMPLE_SCORES else 0
                if len(numbers) != width:
                    raise ValueError(f"line {number} has no valid statistics of {name!r}")
            found.append(ScoredExample(**{name: entry[name] for name in ScoredExample._fields}))
    return found
