"""Tests of scoring the rows of a table, also in several processes."""

import dataclasses
import os

from papers import scoring
from papers.plan import Plan, make_plan
from papers.registry import find_targets
from papers.scoring import KILLED, _name, _score_all, score_row
from papers.table import Row


def test_a_table_can_ask_for_faithfulness(tmp_path, monkeypatch):
    table = find_targets()["jain2019.reading"]
    plan = make_plan("jain2019.reading", table, "novels_ne", "tiny", tmp_path, 1, "")
    plain = plan._replace(table=dataclasses.replace(table, faithfulness=0))
    row = table.rows[0]
    assert plan.report_folder(row, 0) != plain.report_folder(row, 0)  # tables share their runs
    counts = []

    def score_run(config, run, mesh, checkpoint, wanted):
        counts.append(wanted.faithfulness)
        wanted.folder.mkdir()

    monkeypatch.setattr(scoring, "score_run", score_run)
    monkeypatch.setattr(Plan, "trained_config", lambda plan, row, seed: plan.config(row, seed))
    assert score_row(plan, row, 0) == score_row(plain, row, 0) == ""
    assert counts == [table.faithfulness, 0] and table.faithfulness > 0


def test_progress_names_the_models_of_an_ensemble(tmp_path):
    plan = make_plan("bai2018.jsb", find_targets()["bai2018.jsb"], "jsb", "small", tmp_path, 3, "")
    names = [_name(plan, Row("e", ensemble=True), number) for number in (0, 2)]
    assert names == ["e, 3 models", "e, 3 models without seed 1"]
    assert _name(plan, Row("e"), 2) == "e, seed 2"


class Deadly:
    """An object that kills the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_killed_scoring_process_is_reported(tmp_path):
    table = find_targets()["mino2017.keys"]
    plan = make_plan("mino2017.keys", table, "dates", "tiny", tmp_path, 1, "")
    ((name, error),) = _score_all(plan, [(table.rows[0], Deadly())], workers=2, signals=[])
    assert name.startswith(table.rows[0].name) and error == KILLED
