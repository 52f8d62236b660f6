"""A page says what the figures say."""

import json
import re
from pathlib import Path

import pytest

from papers.page import order, show, steps, write_page
from papers.plan import Plan, facts
from papers.significance import significance, welch
from papers.table import Row, Table

ROWS = (
    Row("worst", {"cell": "elman"}, {}, {"frame": 9.0}),
    Row("middle", {"cell": "lstm"}, {}, {"frame": 8.5}),
    Row("best", {"cell": "gru"}, {}, {"frame": 8.0}),
)


def plan_of(folder, rows=ROWS, measures=("frame",), **more):
    table = Table("Cells", "a paper", "schuster1997", measures, rows, ("jsb",), 1.0, **more)
    return Plan("cells", table, "jsb", "", Path(folder), 2, {})


def reports_of(**losses):
    return {
        name: {seed: {"scores": {"loss": loss}} for seed, loss in enumerate(own)}
        for name, own in losses.items()
    }


def test_the_order_is_the_papers_and_the_verdict_ours(tmp_path):
    plan = plan_of(tmp_path)
    held = reports_of(worst=[3.0, 3.1], middle=[2.0, 2.1], best=[1.0, 1.1])
    assert "**The paper's ordering holds** by −log p a frame: 2 of 2 steps" in order(plan, held)
    broken = reports_of(worst=[3.0, 3.1], middle=[2.0, 2.1], best=[2.05, 2.15])
    text = order(plan, broken)
    assert "does not hold" in text and "1 of 2 steps" in text
    assert "Losses: middle → best (-0.050, within the noise)" in text
    assert order(plan, reports_of(worst=[3.0, 3.1])) == ""


def test_what_a_paper_claims_in_words_is_checked_too(tmp_path):
    rows = tuple(Row(row.name, row.arguments) for row in ROWS)
    plan = plan_of(tmp_path, rows, claims=(("worst", "best"), ("middle", "best")))
    (first, second) = steps(plan, reports_of(worst=[3.0], middle=[1.0], best=[2.0]))
    assert (first.gain, second.gain) == (1.0, -1.0)


def test_means_and_deviations():
    assert show([1.0, 2.0, 3.0], ".1f") == "2.0 ± 1.0"
    assert show([1.0], ".2f") == "1.00" and show([], ".2f") == "–"
    assert welch([1.0, 1.1, 0.9], [5.0, 5.1, 4.9]) < 1e-4
    assert 0.2 < welch([1.0, 2.0, 3.0], [2.0, 3.0, 1.5]) < 1


def test_right_answers_are_compared_by_example(tmp_path):
    rows = (Row("first"), Row("same"), Row("better"))
    plan = plan_of(tmp_path, rows, ("accuracy",))
    right = {"first": 40, "same": 40, "better": 80}
    for row in rows:
        for seed in range(2):
            folder = plan.report(row, seed)
            folder.mkdir(parents=True)
            lines = (f"{'a' if i < right[row.name] else 'b'}\t0.9\ta\n" for i in range(100))
            (folder / "predictions.txt").write_text("".join(lines))
    reports = {row.name: {0: {"scores": {}}, 1: {"scores": {}}} for row in rows}
    assert [significance(plan, reports, row) for row in rows] == ["–", "1", "<.001"]


def test_a_page_shows_what_is_missing_as_missing(tmp_path):
    plan = plan_of(tmp_path)
    plan.own.mkdir()
    path = write_page(plan, reports_of(worst=[9.5, 9.7], middle=[8.4]), "`a command`.")
    text = path.read_text()
    assert re.search(r"\| worst \| 9.600 ± 0.141 \| 9.000 \| \+0.600 \| – \|", text)
    assert "| best | – | 8.000 | – | – | – | – | – |" in text and "`a command`" in text
    kept = json.loads((plan.own / "results.json").read_text())
    assert kept["middle"]["ours"]["frame"] == [8.4] and kept["best"]["published"]["frame"] == 8.0


def test_seconds_are_of_all_attempts_and_not_of_the_time_between(tmp_path):
    lines = [
        {"kind": "run", "step": 0, "parameters": 7, "time": 100.0},
        {"kind": "train", "step": 5, "count": 50, "time": 130.0},
        {"kind": "run", "step": 5, "parameters": 7, "time": 9000.0},
        {"kind": "train", "step": 10, "count": 100, "time": 9010.0},
        {"kind": "valid", "step": 10, "loss": 1.0, "time": 9012.0},
    ]
    assert facts(tmp_path) is None
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert facts(tmp_path) == pytest.approx((7, 100, 42.0))
