"""Tests of scoring in several processes."""

import os

from papers.plan import make_plan
from papers.registry import find_targets
from papers.scoring import KILLED, _score_all


class Deadly:
    """An object that kills the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_killed_scoring_process_is_reported(tmp_path):
    table = find_targets()["mino2017.keys"]
    plan = make_plan("mino2017.keys", table, "dates", "tiny", tmp_path, 1, "")
    ((name, error),) = _score_all(plan, [(table.rows[0], Deadly())], workers=2, signals=[])
    assert name.startswith(table.rows[0].name) and error == KILLED
