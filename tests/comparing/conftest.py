"""Runs of two systems, for the tests of comparisons."""

import pytest

from comparing.runs import load_run
from comparing.systems import group_runs
from tests.comparing.runs import WRONG, write_run


@pytest.fixture
def runs(tmp_path):
    """Five runs of two systems; those of the second make one mistake."""
    folders = [write_run(tmp_path / f"dot/seed{s}", s) for s in range(3)]
    changes = {"model__attention__score": "dot"}
    folders += [write_run(tmp_path / f"a,b/seed{s}", s, WRONG, **changes) for s in range(2)]
    return folders


@pytest.fixture
def systems(runs):
    return group_runs([load_run(folder, "test") for folder in runs])
