"""Tests of leaderboards and plots with handwritten records of trials."""

import csv
import json
import logging

import pytest
from markdown_it import MarkdownIt
from matplotlib.pyplot import imread
from optuna.trial import TrialState

from sweeping.leaderboard import compare_command, make_standings, write_leaderboard
from sweeping.pictures import draw
from sweeping.points import label
from sweeping.study import Record
from terminal import clean

FACTS = {"parameters": 1234, "count": 5e6, "seconds": 61.0}
D = "model.attention.D"
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def record(point, seed, state, score=None, **facts):
    return Record(label(point), seed, point, state, score, facts)


RECORDS = [
    record({"align": "local_p", D: 2}, 0, TrialState.COMPLETE, 30.0, **FACTS),
    record({"align": "local_p", D: 5}, 0, TrialState.COMPLETE, 32.0, **FACTS),
    record({"align": "global"}, 0, TrialState.COMPLETE, 36.0, **FACTS),
    record({"align": "local_m", D: 2}, 0, TrialState.PRUNED, 90.0, seconds=3.0),
    record({"align": "local_m", D: 5}, 0, TrialState.FAIL, error="a | b"),
    record({"align": "local_p", D: 2}, 1, TrialState.COMPLETE, 38.0, **FACTS),
    record({"align": "local_p", D: 5}, 1, TrialState.WAITING),
    record({"align": "global"}, 1, TrialState.FAIL),  # interrupted, so without an error message
]


def test_points_are_ranked_by_their_mean_over_seeds():
    rows = make_standings(RECORDS, lower_is_better=False)
    assert [row.mean for row in rows] == [36.0, 34.0, 32.0, None, None]
    assert [row.unfinished for row in rows] == [1, 0, 1, 0, 0]
    assert rows[1].deviation == 32**0.5 and rows[0].deviation is None
    assert rows[3].pruned == [90.0] and rows[4].errors == ["a | b"]
    assert [row.mean for row in make_standings(RECORDS, True)][:3] == [32.0, 34.0, 36.0]


def test_points_with_pruned_seeds_rank_below_complete_points():
    """The mean of a point with pruned seeds is biased, because its bad seeds are missing."""
    biased = [record({"a": 1}, seed, TrialState.PRUNED, 1.0) for seed in (0, 1)]
    biased.append(record({"a": 1}, 2, TrialState.COMPLETE, 50.0))
    complete = [record({"a": 2}, seed, TrialState.COMPLETE, 40.0) for seed in range(3)]
    assert [row.mean for row in make_standings([*biased, *complete], False)] == [40.0, 50.0]


def test_the_leaderboard_is_written_as_markdown_csv_and_json(tmp_path):
    rows = make_standings(RECORDS, lower_is_better=False)
    text = write_leaderboard(rows, "bleu", tmp_path, "tokens")
    written = (tmp_path / "leaderboard.md").read_text()
    ranking = "Points are ranked by their mean bleu on the validation split."
    assert written.startswith(f"# Leaderboard\n\n{ranking}\n\n{text}")
    assert written.endswith(f"`python compare.py '--runs={tmp_path}/runs/*/*'`\n")
    lines = text.splitlines()
    assert lines[0].startswith(
        "| align | D | bleu | standard deviation | seeds | parameters | training tokens |"
    )
    assert lines[3].startswith("| local_p | 2 | 34.00 | 5.657 | 2 | 1,234 | 5,000,000 | 61 |")
    assert "pruned at 90.00" in lines[5] and "failed: a \\| b" in lines[6]
    assert {line.replace("\\|", "").count("|") for line in lines} == {lines[0].count("|")}
    table = list(csv.DictReader((tmp_path / "leaderboard.csv").read_text().splitlines()))
    assert (table[1][D], table[1]["bleu"], table[1]["seeds"]) == ("2", "34.0", "2")
    assert table[2]["run"] == "runs/align=local_p,D=5" and "1 not finished" in table[2]["remarks"]
    content = json.loads((tmp_path / "leaderboard.json").read_text())
    assert content["metric"] == "bleu" and content["rows"][0]["label"] == "align=global"


HOSTILE = "<img src=x onerror=alert(1)>|`a`\n\x1b[2J# $\\foo^$ [b](c) *d* _e_ &lt; \\| ~~f~~"


def test_hostile_points_are_shown_literally(tmp_path):
    """Names, values and errors of points cannot add columns, rows, tags or escape sequences."""
    points = [
        {"name": f"{HOSTILE}{i}", "a.$\\b^$": f"{HOSTILE}{i}" * 9, "c.d": i} for i in range(3)
    ]
    records = [record(points[i], 0, TrialState.COMPLETE, float(i)) for i in range(2)]
    records.append(record(points[2], 0, TrialState.FAIL, error=HOSTILE))
    text = write_leaderboard(make_standings(records, False), "bleu", tmp_path)
    assert "\x1b" not in text and len(text.splitlines()) == 2 + len(records)
    cells = [node.children for node in MARKDOWN.parse(text) if node.type == "inline"]
    assert len(cells) == 10 * (1 + len(records))
    assert {part.type for cell in cells for part in cell} == {"text"}
    shown = clean(HOSTILE)
    assert "".join(part.content for part in cells[10]) == label(points[1])
    assert "".join(part.content for part in cells[-1]) == f"failed: {shown}"
    rows = list(csv.reader((tmp_path / "leaderboard.csv").read_text().splitlines()))
    assert [len(row) for row in rows] == [11] * 4 and rows[-1][-1] == f"failed: {shown}"
    draw(records, "bleu", False, tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == 4


def test_fields_with_too_many_values_are_not_plotted(tmp_path, caplog):
    points = [{"a.path": f"folder {i}", "a.b": i % 2} for i in range(30)]
    records = [record(p, 0, TrialState.COMPLETE, float(i)) for i, p in enumerate(points)]
    with caplog.at_level(logging.INFO, "alignax"):
        draw(records, "loss", True, tmp_path)
    assert "the plots do not show path" in caplog.text
    assert max(imread(tmp_path / "slices.png").shape) < 1000


def test_plots_are_drawn(tmp_path):
    draw(RECORDS, "bleu", False, tmp_path)
    drawn = sorted(path.name for path in tmp_path.glob("*.png"))
    assert drawn == ["history.png", "importance.png", "parallel.png", "slices.png"]


def test_fields_with_many_numbers_get_a_numeric_axis(tmp_path):
    points = [{"a.rate": 10.0 ** -(i % 7) * (i + 1), "a.b": i % 2} for i in range(14)]
    records = [record(p, 0, TrialState.COMPLETE, float(i)) for i, p in enumerate(points)]
    draw(records, "loss", True, tmp_path)
    assert (tmp_path / "slices.png").stat().st_size > 10_000


def test_nothing_is_ranked_if_all_scores_are_equal(tmp_path, caplog):
    """Plots of importances and parallel coordinates of an earlier attempt are deleted."""
    points = [{"a.b": i, "a.c": i % 2} for i in range(4)]
    records = [record(p, 0, TrialState.COMPLETE, float(p["a.b"])) for p in points]
    draw(records, "exact", False, tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    with caplog.at_level(logging.INFO, "alignax"):
        draw([r._replace(score=1.0) for r in records], "exact", False, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history.png", "slices.png"]
    assert "exact is 1 in every complete run" in caplog.text
    one_field = [r._replace(point={"a.b": r.point["a.b"]}) for r in records]
    draw(one_field, "exact", False, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_equal_scores_are_ranked_by_loss_and_all_metrics_are_shown(tmp_path):
    losses = {"a": [0.3, 0.5], "b": [0.2, 0.4], "c": [0.1]}
    records = [
        record({"name": name}, seed, TrialState.COMPLETE, 1.0 - (name == "c"),
               metrics={"exact": 1.0, "chrf": 90.0 + seed, "loss": loss})
        for name, several in losses.items() for seed, loss in enumerate(several)
    ]  # fmt: skip
    rows = make_standings(records, lower_is_better=False)
    assert [row.point["name"] for row in rows] == ["b", "a", "c"]
    assert [row.loss for row in rows] == [pytest.approx(x) for x in (0.3, 0.4, 0.1)]
    lines = write_leaderboard(rows, "exact", tmp_path).splitlines()
    assert lines[0].startswith("| name | exact | standard deviation | seeds | loss | chrf |")
    assert lines[2].startswith("| b | 1.000 | 0.000 | 2 | 0.3000 | 90.50 |")
    table = list(csv.DictReader((tmp_path / "leaderboard.csv").read_text().splitlines()))
    assert float(table[0]["loss"]) == pytest.approx(0.3) and table[2]["chrf"] == "90.0"


def test_a_single_run_is_not_compared(tmp_path):
    rows = make_standings(RECORDS[:1], lower_is_better=False)
    text = write_leaderboard(rows, "bleu", tmp_path)
    assert compare_command(rows, tmp_path) == ""
    assert (tmp_path / "leaderboard.md").read_text().endswith(text)


def test_a_single_point_is_not_plotted(tmp_path):
    draw(RECORDS[:1], "bleu", False, tmp_path)
    assert not list(tmp_path.iterdir())
