"""Tests of scoring the rows of a table, also in several processes."""

import dataclasses
import json
import os

from papers import scoring
from papers.plan import Plan, make_plan
from papers.registry import find_targets
from papers.scoring import KILLED, _name, _score_all, read_reports, score_plan, score_row
from papers.table import Row
from writing import write_json


def test_a_table_can_ask_for_faithfulness(tmp_path, monkeypatch):
    table = find_targets()["jain2019.reading"]
    plan = make_plan("jain2019.reading", table, "novels_ne", "tiny", tmp_path, 1, "")
    plain = plan._replace(table=dataclasses.replace(table, faithfulness=0))
    row = table.rows[0]
    assert plan.report_folder(row, 0) != plain.report_folder(row, 0)  # tables share their runs
    counts = []

    def score_run(config, run, mesh, checkpoint, options):
        counts.append(options.faithfulness)
        options.folder.mkdir()

    monkeypatch.setattr(scoring, "score_run", score_run)
    monkeypatch.setattr(Plan, "trained_config", lambda plan, row, seed: plan.config(row, seed))
    assert score_row(plan, row, 0) == score_row(plain, row, 0) == ""
    assert counts == [table.faithfulness, 0] and table.faithfulness > 0


def test_results_on_the_validation_split_are_those_of_the_best_evaluation(tmp_path):
    table = find_targets()["frontier"]
    assert table.from_logs
    plan = make_plan("frontier", table, "dates", "tiny", tmp_path, 2, "")
    row = table.rows[0]
    assert plan.config(row).train.eval_metric == "bleu"
    for seed, done in ((0, True), (1, False)):
        folder = plan.run_folder(row, seed)
        (folder / "checkpoints" / "3").mkdir(parents=True)
        write_json(folder / "status.json", {"done": done, "checkpoint": "checkpoints/3"})
        lines = [
            {"step": step, "kind": "valid", "time": 0.0, "bleu": bleu, "perplexity": perplexity}
            for step, bleu, perplexity in ((1, 10.0, 9.0), (2, 30.0, 7.0), (3, 20.0, 5.0))
        ]
        (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_reports(plan) == {row.name: {0: {"scores": {"bleu": 30.0, "perplexity": 7.0}}}}
    assert score_plan(plan, workers=1) == [] and not (plan.run_folder(row, 0) / "reports").exists()


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
