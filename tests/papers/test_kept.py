"""Tests of rows that keep the results of committed pages (reproduce.py --keep)."""

import copy
import dataclasses
import json
import re
from pathlib import Path

import pytest

from errors import UserError
from papers.kept import keep_rows
from papers.page import write_page
from papers.plan import make_plan
from papers.registry import find_targets
from papers.results import committed, read_result
from papers.scoring import read_reports
from papers.significance import significance
from papers.verdicts import FEWEST_MODELS
from tests.comparing.runs import write_run

TARGETS = find_targets()
COMMITTED = committed(TARGETS)


def plan_of(result, folder, seeds=0):
    content = result.content
    names = content["target"], content["data"], content["size"]
    return make_plan(names[0], result.table, *names[1:], Path(folder), seeds, "")


def kept_plan(result, folder, seeds=0):
    return keep_rows(plan_of(result, folder, seeds), [result], seeds)


def changed(result, rows):
    """Return results in which some rows have other fields: pairs of a name and new fields."""
    content = copy.deepcopy(result.content)
    for name, changes in rows:
        content["rows"][name] |= changes
    return result._replace(content=content)


def lines_of(text):
    """Return the lines of tables and plots of a page, and the numbers of decided claims."""
    return [line for line in text.splitlines() if re.match(r"\||!\[|\*\*\d|- ", line)]


@pytest.mark.parametrize(
    "target",
    [
        "bai2018.nottingham",
        "schuster1997.classes",
        "bahdanau2015.table1",
        "luong2015.table4",
        "frontier",
    ],
)
def test_a_page_of_kept_rows_has_the_same_results(target, tmp_path):
    """Pages with t-tests, with several rounds, with plots and signatures, and from logs."""
    (result,) = COMMITTED[target]
    plan = kept_plan(result, tmp_path)
    assert set(plan.kept) == set(result.content["rows"]) and not plan.runs()
    page = write_page(plan, read_reports(plan), "command")
    again = json.loads((page.parent / "results.json").read_text())
    for name, row in again["rows"].items():
        assert row == result.content["rows"][name] | {"p": row["p"]}
        assert (row["p"] or "–") == (result.content["rows"][name]["p"] or "–")
    for name in again.keys() - {"rows", "claims"}:
        assert again[name] == result.content.get(name, 0.95)
    text = page.read_text("utf-8")
    whole = (result.path.parent / "page.md").read_text("utf-8")
    before, _, _ = whole.partition("\n## Remarks")
    assert "Kept from an earlier version of this page: all rows." in text
    if target != "frontier":  # its costs in budgets.json have six digits
        assert set(lines_of(before)) <= set(lines_of(text)) <= set(lines_of(whole))
    assert re.findall(r", seeds .*?;", text) == re.findall(r", seeds .*?;", before)


def test_only_rows_that_are_out_of_date_are_trained(tmp_path):
    (result,) = COMMITTED["bai2018.jsb"]
    middle, above = result.table.rows[1].name, result.table.rows[0].name
    plan = kept_plan(changed(result, [(middle, {"run": "old"})]), tmp_path)
    assert [row.name for row in plan.trained_rows()] == [middle]
    assert {row.name for row, _ in plan.rows_to_score()} == {middle}
    assert set(read_reports(plan)) == set(result.content["rows"]) - {middle}
    assert plan.seeds == result.content["seeds"] and kept_plan(result, tmp_path, 2).seeds == 2
    for changes in ({"scoring": "checkpoint=last"}, {"measured": {"frame": []}}, {"measured": {}}):
        assert set(kept_plan(changed(result, [(above, changes)]), tmp_path).kept) == {
            row.name for row in result.table.rows[1:]
        }


def test_kept_rows_get_more_seeds(tmp_path):
    """Only the new seeds are trained and scored, and the page has the results of all seeds."""
    (result,) = COMMITTED["bai2018.jsb"]
    plan = kept_plan(result, tmp_path)
    row = plan.table.rows[1]
    plan = plan._replace(more_seeds={row.name: 7})
    run = plan.run_name(row)
    assert plan.untrained() == [(run, 5), (run, 6)]
    assert [(r.name, seed) for r, seed in plan.rows_to_score()] == [(row.name, 5), (row.name, 6)]
    assert [plan.is_kept(r) for r in plan.table.rows] == [True, False, True]
    for seed in (5, 6):
        write_run(plan.run_folder(row, seed), seed, report=False)
        folder = plan.report_folder(row, seed)
        folder.mkdir(parents=True)
        (folder / "scores.json").write_text(json.dumps({"scores": {"loss": 8.0 + seed}}))
    page = write_page(plan, read_reports(plan), "command")
    before = result.content["rows"][row.name]
    after = json.loads((page.parent / "results.json").read_text())["rows"][row.name]
    assert after["seeds"] == list(range(7))
    assert after["measured"] == {"frame": [*before["measured"]["frame"], 13.0, 14.0]}
    assert after["facts"][:5] == before["facts"] and len(after["facts"]) == 7
    assert f"(kept seeds: {row.name}: 0 to 4)" in page.read_text("utf-8")


def test_p_values_of_the_bootstrap_are_kept_for_pairs_of_rows(tmp_path):
    (result,) = COMMITTED["yang2016.flat"]
    _, second, third, last = (row.name for row in result.table.rows)
    kept = {name: row["p"] for name, row in result.content["rows"].items()}
    plan = kept_plan(result, tmp_path)
    assert significance(plan, read_reports(plan))[third] == kept[third] != "–"
    # Without the second row, the third one is below another row than before.
    rows = [row for row in result.table.rows if row.name != second]
    table = dataclasses.replace(result.table, rows=(*rows,), claims=())
    plan = kept_plan(result._replace(table=table), tmp_path)
    assert significance(plan, read_reports(plan)) == {third: "–", last: kept[last] or "–"}


def test_the_t_test_compares_kept_and_new_rows(tmp_path):
    (result,) = COMMITTED["bai2018.jsb"]
    names = [row.name for row in result.table.rows]
    plan = kept_plan(changed(result, [(names[-1], {"run": "old"})]), tmp_path)
    new = {names[-1]: {seed: {"scores": {"loss": 8.0 + seed / 100}} for seed in range(5)}}
    assert significance(plan, read_reports(plan) | new)[names[-1]] == "<.001 (t)"


def test_ensembles_are_kept_if_they_were_scored_without_each_of_the_wanted_models(tmp_path):
    (result,) = COMMITTED["luong2015.table1"]
    single, ensemble = (row.name for row in result.table.rows[-2:])
    models = len(result.content["rows"][ensemble]["facts"])
    measures = result.content["rows"][ensemble]["measured"]
    left_out = {name: [30.0 + n for n in range(models)] for name in measures if measures[name]}
    incomplete = changed(result, [(ensemble, {"left_out": {}})])
    del incomplete.content["rows"][ensemble]["left_out"]
    complete = changed(result, [(ensemble, {"left_out": left_out})])
    plan = kept_plan(complete, tmp_path)
    assert models >= FEWEST_MODELS and ensemble in plan.kept
    page = write_page(plan, read_reports(plan), "command")
    again = read_result(page.parent / "results.json", TARGETS)
    assert again is not None and again.content["rows"][ensemble]["left_out"] == left_out
    # Rows of the same models are trained again together, because claims pair their seeds.
    for result, seeds in (incomplete, 0), (complete, models - 1):
        assert not {single, ensemble} & kept_plan(result, tmp_path, seeds).kept.keys()


def test_merged_rows_and_their_parts_are_kept_together(tmp_path):
    (result,) = COMMITTED["schuster1997.series"]
    merged = next(row for row in result.table.rows if row.merges)
    for name in (merged.merges[0], merged.name):
        plan = kept_plan(changed(result, [(name, {"run": "old"})]), tmp_path)
        assert not {merged.name, *merged.merges} & plan.kept.keys() and plan.kept


def test_without_rows_to_keep_there_is_one_message(tmp_path):
    (result,) = COMMITTED["bai2018.jsb"]
    old = changed(result, [(name, {"run": "old"}) for name in result.content["rows"]])
    with pytest.raises(UserError, match=r"no row of bai2018.jsb/page.md can be kept"):
        kept_plan(old, tmp_path)
    (result,) = COMMITTED["luong2015.table4"]
    plan = plan_of(result, tmp_path)._replace(data="multi30k_en_de")
    with pytest.raises(UserError, match="or choose --data=multi30k_de_en --size=small"):
        keep_rows(plan, [result], 0)
    with pytest.raises(UserError, match=r"leave --keep out$"):
        keep_rows(plan, [], 0)
