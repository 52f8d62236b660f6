"""A page says what the figures say."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from data.labelling import prepare
from papers.page import _legend, _remarks, order, show, steps, write_page
from papers.plan import Plan, facts
from papers.scoring import read_reports
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
    assert "**The published order holds**, by −log p a frame: 2 of 2" in order(plan, held)
    close = reports_of(worst=[3.0, 3.1], middle=[2.0, 2.1], best=[1.95, 2.05])
    assert "**The published order holds, in part within the noise**" in order(plan, close)
    level = reports_of(worst=[3.0, 3.1], middle=[2.0, 2.1], best=[2.05, 2.15])
    text = order(plan, level)
    assert "**The published order holds but for what is within the noise**" in text
    assert "1 of 2 steps" in text and "Losses: middle → best (-0.050, within the noise)" in text
    noise = reports_of(worst=[3.0, 3.1], middle=[3.05, 3.15], best=[3.1, 3.2])
    assert "**Nothing of the published order is seen, nor its contrary" in order(plan, noise)
    same = reports_of(worst=[3.0, 3.1], middle=[2.0, 2.1], best=[2.0, 2.1])
    text = order(plan, same)
    assert "Losses" not in text and "Equal: middle, best." in text
    broken = reports_of(worst=[3.0, 3.1], middle=[2.0, 2.1], best=[2.5, 2.6])
    assert "**The published order does not hold**" in order(plan, broken)
    some = reports_of(worst=[3.0, 3.1], middle=[2.0, 2.1])
    assert "**Not all rows are measured**" in order(plan, some) and "Missing: best." in order(
        plan, some
    )
    assert "**One seed, whose noise is not known**" in order(plan._replace(seeds=1), held)
    assert order(plan, {}) == ""


def test_equals_have_no_order(tmp_path):
    rows = tuple(Row(row.name, row.arguments, {}, {"frame": 8.0}) for row in ROWS)
    plan = plan_of(tmp_path, rows)
    assert order(plan, reports_of(worst=[3.0], middle=[2.0])).startswith(
        "Nothing that was published"
    )


def test_every_row_of_a_figure_is_compared_with_those_of_the_next(tmp_path):
    figures = {"worst": 9.0, "middle": 8.0, "best": 8.0}
    rows = tuple(Row(row.name, row.arguments, {}, {"frame": figures[row.name]}) for row in ROWS)
    found = steps(plan_of(tmp_path, rows), reports_of(worst=[3.0], middle=[2.0], best=[1.0]))
    assert [(s.worse, s.better) for s in found] == [("worst", "middle"), ("worst", "best")]


def test_a_row_of_one_value_is_as_noisy_as_the_others(tmp_path):
    measured = reports_of(worst=[3.0, 3.4], middle=[2.0, 2.4], best=[1.9])
    first, second = steps(plan_of(tmp_path), measured)
    assert first.noise == pytest.approx(0.4) == second.noise and second.within


def test_a_test_is_named_where_there_was_one(tmp_path):
    plan, reports = plan_of(tmp_path), reports_of(worst=[3.0], middle=[2.0], best=[1.0])
    assert "by Welch's t-test" in _legend(plan, reports, {"middle": "–", "best": ".03 (t)"})
    assert " p: " not in _legend(plan, reports, {"middle": "–", "best": "–"})


def test_what_a_paper_claims_in_words_is_checked_too(tmp_path):
    rows = tuple(Row(row.name, row.arguments) for row in ROWS)
    plan = plan_of(tmp_path, rows, claims=(("worst", "best"), ("middle", "best")))
    (first, second) = steps(plan, reports_of(worst=[3.0], middle=[1.0], best=[2.0]))
    assert (first.gain, second.gain) == (1.0, -1.0)


def test_the_noise_of_one_model_decoded_twice_is_that_of_the_gain(tmp_path):
    measured = reports_of(worst=[3.0, 1.0], best=[2.9, 0.89])
    for other, within in ({"cell": "gru"}, True), ({}, False):
        rows = Row("worst"), Row("best", other, decode={"beam": 5})
        (step,) = steps(plan_of(tmp_path, rows, claims=(("worst", "best"),)), measured)
        assert step.within == within


def test_remarks_are_on_whole_tables_in_the_papers_own_size(tmp_path):
    plan = plan_of(tmp_path, remarks={"jsb": "Well."}, sizes=("", "large"))
    whole = reports_of(worst=[3.0], middle=[2.0], best=[1.0])
    assert _remarks(plan, whole) == "**Of the runs in docs/results**: Well."
    assert not _remarks(plan, reports_of(worst=[3.0]))
    assert not _remarks(plan._replace(size="large"), whole)
    assert not _remarks(plan._replace(data="nottingham"), whole)


def test_means_and_deviations():
    assert show([1.0, 2.0, 3.0], ".1f") == "2.0 ± 1.0"
    assert show([1.0], ".2f") == "1.00" and show([], ".2f") == "–"
    assert welch([1.0, 1.1, 0.9], [5.0, 5.1, 4.9]) < 1e-4
    assert 0.2 < welch([1.0, 2.0, 3.0], [2.0, 3.0, 1.5]) < 1


def test_right_answers_are_compared_by_example(tmp_path):
    rows = tuple(Row(name, {}, {"model.hops": i + 1}) for i, name in enumerate(("a", "b", "c")))
    table = Table("T", "a paper", "lin2017", ("accuracy",), rows, ("sst2",), 1.0)
    plan = Plan("t", table, "sst2", "small", tmp_path, 2, {})
    right = {"a": 40, "b": 40, "c": 80}
    for row, seed in plan.scorings():
        folder = plan.report(row, seed)
        folder.mkdir(parents=True)
        lines = (f"{'a' if i < right[row.name] else 'b'}\t0.9\ta\n" for i in range(100))
        (folder / "predictions.txt").write_text("".join(lines))
        (folder / "scores.json").write_text(json.dumps({"scores": {"accuracy": 0.5}}))
    assert significance(plan, read_reports(plan)) == {"b": "1", "c": "<.001"}


def test_a_page_shows_what_is_missing_as_missing(tmp_path):
    plan = plan_of(tmp_path, measures=("frame", "aer"))  # of which these reports have the first
    for row, seed in [(ROWS[0], 0), (ROWS[0], 1), (ROWS[1], 0)]:
        run_of(plan.run(row, seed))
    path = write_page(plan, reports_of(worst=[9.5, 9.7], middle=[8.4]), "python a.py")
    text = path.read_text()
    assert re.search(r"\| worst \| 9.600 ± 0.141 \| 9.000 \| \+0.600 \| – \| 7 \|", text)
    assert "| best | – | 8.000 | – | – | – | – | – |" in text and "`python a.py`" in text
    assert "(but middle: 1; best: 0)" in text and "at commit abc on a chip." in text
    kept = json.loads((plan.own / "results.json").read_text())["rows"]
    assert kept["middle"]["ours"]["frame"] == [8.4] and kept["best"]["published"]["frame"] == 8.0


def run_of(folder):
    """What a run of two attempts tells of itself."""
    lines = [
        {"kind": "run", "step": 0, "parameters": 7, "time": 100.0},
        {"kind": "train", "step": 5, "count": 50, "time": 130.0},
        {"kind": "run", "step": 5, "parameters": 7, "time": 9000.0},
        {"kind": "train", "step": 10, "count": 100, "time": 9010.0},
        {"kind": "valid", "step": 10, "loss": 1.0, "time": 9012.0},
        {"kind": "sample", "step": 10, "source": "no\u2028end of a line", "time": 9012.0},
    ]
    folder.mkdir(parents=True)
    written = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (folder / "log.jsonl").write_text("".join(written), "utf-8")
    (folder / "run.json").write_text(json.dumps([{"commit": "abc", "devices": ["a chip"]}]))


def test_seconds_are_of_all_attempts_and_not_of_the_time_between(tmp_path):
    run_of(tmp_path / "run")
    assert facts(tmp_path / "run") == (7, 100, 42.0, "abc", "a chip")


def test_separate_predictions_are_averaged(tmp_path):
    parts = tuple(Row(f"{d}, delay 0", {"network": d}) for d in ("forward", "backward"))
    merged = Row("merged", merges=tuple(row.name for row in parts))
    table = Table("T", "s", "schuster1997", ("squared_error",), (*parts, merged), ("series",), 1.0)
    few = {"data.cache": str(tmp_path / "cache"), "data.examples.test": 2, "data.series_length": 3}
    plan = Plan("t", table, "series", "", tmp_path, 1, few)
    config = plan.config(parts[0])
    split = prepare(config.data).split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(2))])
    for row, shift in zip(parts, (0.5, -0.1), strict=True):
        folder = plan.report(row, 0)
        folder.mkdir(parents=True)
        (plan.run(row, 0) / "config.json").write_text(config.to_json())
        numbers = [f"{y + shift:.6f}" for y in gold]
        (folder / "predictions.txt").write_text("\n".join([*numbers[:3], "", *numbers[3:], ""]))
    (report,) = read_reports(plan)["merged"].values()
    assert report["scores"]["loss"] == pytest.approx(0.2**2, rel=1e-3)
