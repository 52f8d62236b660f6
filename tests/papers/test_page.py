"""Tests of results pages: tables, claims, legends and significance tests."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from data.labelling import LabellingCorpus
from errors import UserError
from evaluation.bootstrap import welch
from evaluation.examples import ScoredExample, write_examples
from papers import page
from papers.claims import ranked
from papers.page import _cost, _facts, claims_section, legend, mean_and_deviation, write_page
from papers.plan import Plan
from papers.scoring import read_reports
from papers.significance import significance
from papers.table import Row, Table
from training.records import facts

ROWS = (
    Row("worst", {"cell": "elman"}, {}, {"frame": 9.0}),
    Row("middle", {"cell": "lstm"}, {}, {"frame": 8.5}),
    Row("best", {"cell": "gru"}, {}, {"frame": 8.0}),
)


def make_cells_plan(folder, rows=ROWS, measures=("frame",), **more):
    table = Table("Cells", "a paper", "schuster1997", measures, rows, ("jsb",), 1.0, **more)
    return Plan("cells", table, "jsb", "tiny", Path(folder), 2, {})


def make_reports(**losses):
    return {
        name: {seed: {"scores": {"loss": loss}} for seed, loss in enumerate(by_seed)}
        for name, by_seed in losses.items()
    }


def test_a_page_shows_the_claims_with_verdicts(tmp_path):
    claims = ranked("Table 1", "worst", "middle", "best")
    plan = make_cells_plan(tmp_path, claims=claims)
    for row, seed in plan.rows_to_score():
        write_run(plan.run_folder(row, seed))
    reports = make_reports(worst=[3.0, 3.01], middle=[2.0, 2.01], best=[1.99, 2.0])
    text = write_page(plan, reports, "command").read_text()
    assert "**1 of 2 claims holds, 1 is undecided.**" in text
    holds = "| worst → middle | holds | NLL per frame | +1.000 \\[+0.970, +1.030\\] | +0.500 | 2 | "
    assert holds in text
    undecided = "| middle → best | undecided | NLL per frame | +0.010 \\[-0.020, +0.040\\] | "
    assert undecided in text and "difference \\[95 % interval\\]" in text and "rounds" not in text
    kept = json.loads((plan.page_folder / "results.json").read_text())
    assert [claim["verdict"] for claim in kept["claims"]] == ["holds", "undecided"]
    assert kept["claims"][1]["interval"] == pytest.approx([-0.0204, 0.0404], abs=1e-3)
    assert kept["confidence"] == 0.95 and kept["rows"]["best"]["seeds"] == [0, 1]
    # Several rounds widen the intervals.
    text = write_page(plan._replace(rounds=5), reports, "command").read_text()
    assert "difference \\[99 % interval\\]" in text and "in 5 rounds" in text


def test_results_of_ensembles_without_each_model_are_kept_if_they_are_complete(tmp_path):
    rows = (Row("single"), Row("ensemble", ensemble=True))
    plan = make_cells_plan(tmp_path, rows)._replace(seeds=3)
    for seed in range(3):
        write_run(plan.run_folder(rows[0], seed))
    for number in range(1, 4):
        folder = plan.report_folder(rows[1], number)
        folder.mkdir(parents=True)
        (folder / "scores.json").write_text(json.dumps({"scores": {"loss": 1.0 + number}}))
    reports = make_reports(single=[3.0, 3.1, 3.2], ensemble=[2.0])
    write_page(plan, reports, "command")
    kept = json.loads((plan.page_folder / "results.json").read_text())["rows"]
    assert kept["ensemble"]["left_out"] == {"frame": [2.0, 3.0, 4.0]}
    assert "left_out" not in kept["single"]
    (plan.report_folder(rows[1], 2) / "scores.json").write_text('{"scores": {"loss": null}}')
    write_page(plan, reports, "command")
    kept = json.loads((plan.page_folder / "results.json").read_text())["rows"]
    assert "left_out" not in kept["ensemble"]


def test_a_page_without_claims_says_so(tmp_path):
    assert "no verdicts" in claims_section(make_cells_plan(tmp_path), [])


def test_the_legend_names_the_significance_test(tmp_path):
    plan, reports = make_cells_plan(tmp_path), make_reports(worst=[3.0], middle=[2.0], best=[1.0])
    assert "by Welch's t-test" in legend(plan, reports, {"middle": "–", "best": ".03 (t)"})
    assert "bootstrap" in legend(plan, reports, {"middle": "–", "best": ".03"})
    assert "p-value" not in legend(plan, reports, {"middle": "–", "best": "–"})


def test_the_page_names_the_usual_number_of_seeds(tmp_path):
    """It may be larger than the number of the first round of --decide."""
    plan = make_cells_plan(tmp_path)
    reports = make_reports(worst=[3.0, 3.1, 3.2], middle=[2.0, 2.1, 2.2], best=[1.0, 1.1])
    for row in plan.table.rows:
        for seed in reports[row.name]:
            write_run(plan.run_folder(row, seed))
    text = write_page(plan, reports, "command").read_text()
    assert "size=tiny, seeds 0 to 2;" in text
    assert "over 3 seeds (other numbers of seeds: best: 2)" in text


def test_the_page_names_all_commits(tmp_path):
    plan = make_cells_plan(tmp_path)
    for row, commit in zip(ROWS, ("a" * 40, "b" * 40, "c" * 40 + "+"), strict=True):
        write_run(plan.run_folder(row, 0), commit)
    reports = make_reports(worst=[3.0], middle=[2.0], best=[1.0])
    text = write_page(plan, reports, "command").read_text()
    commits = f"commits {'a' * 9}, {'b' * 9} and {'c' * 9}+"
    assert f'trained at {commits} on a chip ("+": with uncommitted changes).' in text


def test_the_legend_names_the_split_of_the_results(tmp_path):
    plan, reports = make_cells_plan(tmp_path), make_reports(worst=[3.0], middle=[2.0], best=[1.0])
    assert "on the test split" in legend(plan, reports, {})
    assert "Every run is scored" in legend(plan, reports, {})
    logged = plan._replace(table=dataclasses.replace(plan.table, from_logs=True))
    assert "on the validation split" in legend(logged, reports, {})
    assert "is scored" not in legend(logged, reports, {})


def test_the_command_that_compares_all_runs_is_left_out_if_it_is_too_long(tmp_path, monkeypatch):
    plan, reports = make_cells_plan(tmp_path), make_reports(worst=[3.0], middle=[2.0], best=[1.0])
    assert "python compare.py" in page._compare_command(plan, reports)
    monkeypatch.setattr(page, "_MOST_COMPARED", 2)
    assert page._compare_command(plan, reports) == ""


def test_means_standard_deviations_and_welch_p_values():
    assert mean_and_deviation([1.0, 2.0, 3.0], ".1f") == "2.0 ± 1.0"
    assert mean_and_deviation([1.0], ".2f") == "1.00" and mean_and_deviation([], ".2f") == "–"
    assert welch([1.0, 1.1, 0.9], [5.0, 5.1, 4.9]) < 1e-4
    assert 0.2 < welch([1.0, 2.0, 3.0], [2.0, 3.0, 1.5]) < 1


@pytest.mark.parametrize(
    ("config", "data", "measure", "score"),
    [
        ("lin2017", "sst2", "accuracy", "accuracy"),
        ("schuster1997", "series_classes", "error", "accuracy"),
        ("luong2015", "dates", "wer", "exact"),
        ("luong2015", "dates", "per", "token_error"),
        ("luong2015", "dates", "bleu", "bleu"),
    ],
)
def test_example_scores_are_compared_with_the_paired_bootstrap(
    config, data, measure, score, tmp_path
):
    rows = tuple(Row(name, {}, {"train.patience": i}) for i, name in enumerate("abc"))
    table = Table("T", "a paper", config, (measure,), rows, (data,), 1.0)
    plan = Plan("t", table, data, "tiny", tmp_path, 2, {})
    right = {"a": 40, "b": 40, "c": 80}
    for row, seed in plan.rows_to_score():
        folder = plan.report_folder(row, seed)
        folder.mkdir(parents=True)
        correct = [float(i < right[row.name]) for i in range(100)]
        if score == "bleu":  # 4 counts of correct n-grams, 4 counts of all n-grams, two lengths
            statistics = [[4 * x, 3 * x, 2 * x, x, 4, 3, 2, 1, 4, 4] for x in correct]
        else:
            statistics = [[x, 1.0] for x in correct]
        write_examples(folder, [ScoredExample("", ["a"], "a", {score: x}) for x in statistics])
        report = {"scores": {score: 0.5}, "faithfulness": {"drop_attention": seed}}
        (folder / "scores.json").write_text(json.dumps(report))
    assert significance(plan, read_reports(plan)) == {"b": "1", "c": "<.001"}
    # Examples have no statistics of this measure, so it is compared over seeds.
    table = dataclasses.replace(table, measures=("drop_attention", measure))
    found = significance(plan._replace(table=table), read_reports(plan))
    assert found == {"b": "1 (t)", "c": "1 (t)"}


def test_scores_without_example_statistics_are_compared_over_seeds(tmp_path):
    """The accuracy of a translation model under teacher forcing has no example statistics."""
    rows = tuple(Row(name, {}, {"train.patience": i}) for i, name in enumerate("ab"))
    table = Table("T", "a paper", "luong2015", ("accuracy",), rows, ("dates",), 1.0)
    plan = Plan("t", table, "dates", "tiny", tmp_path, 2, {})
    for row, seed in plan.rows_to_score():
        folder = plan.report_folder(row, seed)
        folder.mkdir(parents=True)
        write_examples(folder, [ScoredExample("", ["a"], "a", {"exact": [1.0, 1.0]})])
        (folder / "scores.json").write_text(json.dumps({"scores": {"accuracy": 0.5 + seed / 9}}))
    assert significance(plan, read_reports(plan)) == {"b": "1 (t)"}


def test_a_page_shows_missing_values_as_dashes(tmp_path):
    # The reports have no value of the measure `aer`, so its column contains dashes.
    plan = make_cells_plan(tmp_path, measures=("frame", "aer"))
    for row, seed in [(ROWS[0], 0), (ROWS[0], 1), (ROWS[1], 0)]:
        write_run(plan.run_folder(row, seed))
    path = write_page(plan, make_reports(worst=[9.5, 9.7], middle=[8.4]), "python a.py")
    text = path.read_text()
    assert re.search(r"\| worst \| 9.600 ± 0.141 \| 9.000 \| \+0.600 \| 7 \|", text)
    assert "| best | – | 8.000 | – | – | – | – |" in text and "`python a.py`" in text
    assert "| p |" not in text  # one seed gives no p-value
    runs = ",".join(f"{tmp_path}/runs/{plan.run_name(row)}/seed*" for row in ROWS[:2])
    assert f"`python compare.py '--runs={runs}'`" in text
    assert (
        "(other numbers of seeds: middle: 1; best: 0)" in text
        and "at commit abc on a chip." in text
    )
    kept = json.loads((plan.page_folder / "results.json").read_text())["rows"]
    assert (
        kept["middle"]["measured"]["frame"] == [8.4] and kept["best"]["published"]["frame"] == 8.0
    )


def write_run(folder, commit="abc"):
    """Write the log.jsonl and run.json of a run with two attempts."""
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
    (folder / "run.json").write_text(json.dumps([{"commit": commit, "devices": ["a chip"]}]))


def test_run_time_excludes_the_time_between_attempts(tmp_path):
    write_run(tmp_path / "run")
    assert facts(tmp_path / "run") == (7, 100, 42.0, "abc", "a chip")


def test_a_merged_row_averages_the_predictions_of_other_rows(tmp_path):
    parts = tuple(Row(f"{d}, delay 0", {"network": d}) for d in ("forward", "backward"))
    merged = Row("merged", merges=tuple(row.name for row in parts))
    table = Table("T", "s", "schuster1997", ("squared_error",), (*parts, merged), ("series",), 1.0)
    few = {"data.cache": str(tmp_path / "cache"), "data.examples.test": 2, "data.series_length": 3}
    plan = Plan("t", table, "series", "tiny", tmp_path, 1, few)
    config = plan.config(parts[0])
    split = LabellingCorpus(config.data).prepare().split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(2))])
    for row, shift in zip(parts, (0.5, -0.1), strict=True):
        folder = plan.report_folder(row, 0)
        folder.mkdir(parents=True)
        (plan.run_folder(row, 0) / "config.json").write_text(config.to_json())
        numbers = [f"{y + shift:.6f}" for y in gold]
        (folder / "predictions.txt").write_text("\n".join([*numbers[:3], "", *numbers[3:], ""]))
    (report,) = read_reports(plan)["merged"].values()
    assert report["scores"]["loss"] == pytest.approx(0.2**2, rel=1e-3)


def make_links_plan(folder, row):
    table = Table("T", "s", "luong2015", ("aer",), (row,), ("europarl_es_en",), 1.0)
    return Plan("t", table, "europarl_es_en", "small", folder, 2, {"data.dir": str(folder)})


def test_the_cost_of_a_row_includes_the_runs_of_the_reverse_direction(tmp_path):
    row = Row("both", link_settings={"symmetrize": "union"})
    plan = make_links_plan(tmp_path, row)
    for folder in (*plan.run_folders(row, 0), *plan.reverse_folders(row, 0)):
        write_run(folder)
    runs = _facts(plan, {"both": {0: {}}}, row)
    assert _cost(row, runs) == ["2 × 7", "200", "1.4"]


def test_the_links_of_another_aligner_are_scored(tmp_path):
    files = ("{split}.links.fwd", "{split}.links.rev")
    row = Row("aligner", link_files=files, link_settings={"symmetrize": "grow_diag_final_and"})
    plan = make_links_plan(tmp_path, row)
    texts = {
        "corpus.es": "a b\nc d e\n", "corpus.en": "A B\nC D E\n", "dev.es": "c d e\n",
        "dev.en": "C D E\n", "dev.key": "1 1 1\n1 2 2\n1 3 2\n",
        "corpus.links.fwd": "\n0-0 1-1 2-2\n", "corpus.links.rev": "\n0-0 1-1\n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (report,) = read_reports(plan)["aligner"].values()
    assert report["scores"]["alignment_error"] == pytest.approx(1 - (2 + 2) / (3 + 3))
    assert "| aligner | 33.3 |" in write_page(plan, read_reports(plan), "command").read_text()
    (tmp_path / "corpus.links.fwd").write_text("\n0-3\n")
    with pytest.raises(UserError, match=r"corpus\.links\.fwd, line 2: the link 0-3"):
        read_reports(plan)
    (tmp_path / "corpus.links.rev").unlink()  # the corpus need not have such files
    assert read_reports(plan) == {}
