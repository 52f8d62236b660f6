"""How reports are made by several processes."""

import os

import pytest

from errors import UserError
from papers.plan import make_plan
from papers.registry import TARGETS
from papers.scoring import _work


class Deadly:
    """Ends the process that reads it."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_process_that_dies_is_told_in_a_sentence(tmp_path):
    table = TARGETS["mino2017.keys"]
    plan = make_plan("mino2017.keys", table, "dates", "tiny", tmp_path, 1, "")
    with pytest.raises(UserError, match=r"fewer --workers .* the same command goes on"):
        list(_work(plan, [(table.rows[0], Deadly())], workers=2, signals=[]))
