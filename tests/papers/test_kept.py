"""Tests of rows that keep the results of committed pages (reproduce.py --keep)."""

import copy
from pathlib import Path

import pytest

from errors import UserError
from papers.kept import keep_rows, kept_p_values
from papers.measures import MEASURES
from papers.page import write_page
from papers.plan import make_plan
from papers.registry import find_targets
from papers.results import committed, read_result
from papers.scoring import read_reports
from papers.verdicts import FEWEST_MODELS

TARGETS = find_targets()
COMMITTED = committed(TARGETS)


def plan_of(result, folder, seeds=0):
    content = result.content
    names = content["target"], content["data"], content["size"]
    return make_plan(names[0], result.table, *names[1:], Path(folder), seeds, "")


def changed(result, **rows):
    """Return results in which fields of some rows have other values; None removes a field."""
    content = copy.deepcopy(result.content)
    for name, changes in rows.items():
        content["rows"][name] |= changes
        content["rows"][name] = {k: v for k, v in content["rows"][name].items() if v is not None}
    return result._replace(content=content)


@pytest.mark.parametrize("target", ["bai2018.jsb", "bahdanau2015.table1", "xu2015.table"])
def test_a_page_of_kept_rows_has_the_same_results(target, tmp_path):
    (result,) = COMMITTED[target]
    plan = keep_rows(plan_of(result, tmp_path), [result])
    assert set(plan.kept) == {row.name for row in plan.table.rows} and not plan.runs()
    page = write_page(plan, read_reports(plan), "command")
    again = read_result(page.parent / "results.json", TARGETS)
    assert again is not None
    assert again.content["rows"] == result.content["rows"]
    committed_page = (result.path.parent / "page.md").read_text("utf-8").splitlines()
    for line in page.read_text("utf-8").splitlines():  # rows of tables and links to plots
        assert not line.startswith(("|", "!")) or line in committed_page


def test_only_rows_that_are_out_of_date_are_trained(tmp_path):
    (result,) = COMMITTED["bai2018.jsb"]
    plan = keep_rows(plan_of(result, tmp_path), [changed(result, GRU={"run": "old"})])
    assert [row.name for row in plan.trained_rows()] == ["GRU"]
    assert {row.name for row, _ in plan.rows_to_score()} == {"GRU"}
    assert set(read_reports(plan)) == {"LSTM", "Elman"}
    # The p-values of a row and the row above it can only be kept together.
    assert kept_p_values(plan).keys() < kept_p_values(keep_rows(plan, [result])).keys()


def test_ensembles_are_kept_if_they_were_scored_without_each_of_the_wanted_models(tmp_path):
    (result,) = COMMITTED["luong2015.table1"]
    name = result.table.rows[-1].name
    models = len(result.content["rows"][name]["facts"])
    left_out = {"left_out": {"tokenized_bleu": [30.0 + n for n in range(models)]}}
    complete = changed(result, **{name: left_out})

    def kept(result, seeds=models):
        return keep_rows(plan_of(result, tmp_path, seeds), [result])

    assert models >= FEWEST_MODELS and name not in kept(result).kept
    assert name not in kept(complete, models - 1).kept
    plan = kept(complete)
    page = write_page(plan, read_reports(plan), "command")
    again = read_result(page.parent / "results.json", TARGETS)
    assert again is not None and again.content["rows"][name] == complete.content["rows"][name]


def test_rows_of_other_tables_are_kept_if_they_share_all_runs(tmp_path):
    (flat,), (imdb, _) = COMMITTED["yang2016.flat"], COMMITTED["jain2019.classification"]
    stale = changed(flat, HAN={"run": "old"})
    plan = keep_rows(plan_of(flat, tmp_path), [imdb, stale])
    assert plan.kept["HAN"].folder == imdb.path.parent and "HAN" not in kept_p_values(plan)
    accuracy = imdb.content["rows"]["Yang 2016 (HAN)"]["measured"]["accuracy"]
    error = [MEASURES["error"].of(report) for report in read_reports(plan)["HAN"].values()]
    assert error == pytest.approx([100 - value for value in accuracy])
    # That page lacks the models without attention, and this page lacks measures of the other one.
    assert set(keep_rows(plan_of(flat, tmp_path), [imdb]).kept) == {"BiLSTM, attention", "HAN"}
    with pytest.raises(UserError, match="leave --keep out"):
        keep_rows(plan_of(imdb, tmp_path), [flat])


def test_rows_that_are_merged_are_kept_together(tmp_path):
    (result,) = COMMITTED["schuster1997.series"]
    merged = next(row for row in result.table.rows if row.merges)
    old = changed(result, **{merged.merges[0]: {"run": "old"}})
    plan = keep_rows(plan_of(result, tmp_path), [old])
    assert not {merged.name, *merged.merges} & plan.kept.keys() and plan.kept
