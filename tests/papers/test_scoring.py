"""How reports are made by several processes."""

import os

from papers.plan import make_plan
from papers.registry import TARGETS
from papers.scoring import KILLED, _work


class Deadly:
    """Ends the process that reads it."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_process_that_dies_is_told_in_a_sentence(tmp_path):
    table = TARGETS["mino2017.keys"]
    plan = make_plan("mino2017.keys", table, "dates", "tiny", tmp_path, 1, "")
    ((name, error),) = _work(plan, [(table.rows[0], Deadly())], workers=2, signals=[])
    assert name.startswith(table.rows[0].name) and error == KILLED
