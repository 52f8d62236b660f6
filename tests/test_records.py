"""Tests of JSON files for people: numbers are short, and the JSON is valid."""

import ast
import json
import math

import numpy as np
import pytest

from records import to_json
from tests.test_structure import SOURCES, tree

# These files call json.dumps instead of to_json, which rounds numbers, because their output is
# hashed, compared or read back exactly.
EXACT = {
    "benchmarks/corpus_memory.py", "data/corpus.py", "data/store.py", "papers/plan.py",
    "records.py", "sweeping/study.py", "training/checksums.py",
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float(np.float32(0.0041)), "0.0041"),
        (1 / 3, "0.333333"),
        (-2 / 3 * 1e-9, "-6.66667e-10"),
        (52341.1234, "52341.1"),
        (0.0, "0.0"),
        (5e-324, "5e-324"),
        (math.nan, "null"),
        (-math.inf, "null"),
        (7, "7"),
        (True, "true"),
        ({"bleu": [(np.float64(12.3456789), "ä")]}, '{"bleu": [[12.3457, "ä"]]}'),
    ],
)
def test_numbers_are_short_and_valid_json(value, text):
    assert to_json(value) == text


@pytest.mark.parametrize("value", [1753812345.6, 123456789.0, 2.0**52, 12345678901.5])
def test_times_and_counts_stay_exact(value):
    assert json.loads(to_json(value)) == value


def test_files_for_people_are_written_by_to_json():
    assert {str(path) for path in SOURCES if calls(path) & {"dump", "dumps"}} == EXACT


def calls(path):
    """Return the names of the `json` functions that a source file calls."""
    return {
        node.func.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "json"
    }
