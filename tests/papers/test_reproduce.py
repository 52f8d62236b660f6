"""A small table from its rows to its page, and again; what reproduce.py tells of itself."""

import dataclasses
import json
import re

import pytest

import reproduce as reproducing
from errors import UserError
from papers.plan import Plan, make_plan
from papers.registry import TARGETS
from papers.table import Row, Table
from reproduce import reproduce
from sweeping.estimate import Estimate
from tests.programs import ENVIRONMENT, call

_DOT = {"score": "dot", "feed": "no"}
TABLE = Table(
    title="One model in two ways",
    source="nowhere",
    config="luong2015",
    measures=("tokenised_bleu", "bleu", "perplexity"),
    rows=(
        Row("greedy", _DOT, {}, {"tokenised_bleu": 20.0}),
        Row("ensemble, beam 2", _DOT, {}, {"tokenised_bleu": 21.0}, decode={"beam": 2},
            ensemble=True),
    ),
    data=("dates",),
    minutes=1.0,
    figures=("lengths", "heat_maps"),
)  # fmt: skip
QUICK = {
    "data.examples.train": 32, "data.examples.valid": 8, "data.examples.test": 8,
    "data.buckets": 1, "data.batch_size": 16, "train.steps": 3, "train.eval_every": 3,
    "train.log_every": 3, "train.samples": 0, "model.encoder.features": 4,
    "model.decoder.features": 8, "model.encoder.embedding": 8, "model.decoder.embedding": 8,
}  # fmt: skip


@pytest.fixture
def plan(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():  # for the processes that it starts
        monkeypatch.setenv(name, value)
    overrides = {**QUICK, "data.cache": str(tmp_path / "cache")}
    return Plan("two.rows", TABLE, "dates", "tiny", tmp_path / "results", 1, overrides)


def test_a_table_becomes_a_page(plan):
    page = reproduce(plan, workers=1, command="python reproduce.py two.rows")
    text = page.read_text()
    assert text.startswith(f"# {TABLE.title}") and "`python reproduce.py two.rows`" in text
    for name in ("greedy", "ensemble, beam 2"):
        (line,) = re.findall(rf"^\| {name} \|.*\|$", text, re.MULTILINE)
        cells = [cell.strip() for cell in line.split("|")][1:-1]
        measured, paper, difference, bleu, perplexity, p, size, seen, minutes, how = cells[1:]
        mean = float(measured.partition(" ± ")[0])
        assert float(difference) == pytest.approx(mean - float(paper), abs=0.011)
        first = name == "greedy"
        assert (perplexity == "–") == (p != "–") == ("1 × " in size) == (not first)
        assert how == ("greedy" if first else "beam 2") and float(bleu) >= 0
        assert int(seen.replace(",", "")) > 0 and float(minutes) >= 0
    assert (
        "**One seed, whose noise is not known**" in text
        and "tok:none" in text
        and "tok:13a" in text
    )
    assert {path.name for path in plan.own.glob("*.png")} == {
        "lengths.png", "attention-0.png",
    }  # fmt: skip
    kept = json.loads((plan.own / "results.json").read_text())["rows"]
    assert len(kept["greedy"]["ours"]["bleu"]) == 1 and kept["greedy"]["facts"][0]["count"] > 0

    # Again: what is done is not done again, and a table that shares a run does not train it.
    times = {path: path.stat().st_mtime_ns for path in plan.folder.rglob("scores.json")}
    assert all("ter" not in json.loads(path.read_text("utf-8"))["scores"] for path in times)
    shared = dataclasses.replace(TABLE, rows=TABLE.rows[:1], figures=())
    assert len(times) == 2
    reproduce(plan, workers=1, command="again")
    reproduce(plan._replace(target="other", table=shared), workers=1, command="other")
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert len(list(plan.folder.glob("runs/*/seed*/log.jsonl"))) == 1


def test_a_page_is_written_where_a_run_failed_and_the_failure_told(plan, monkeypatch):
    monkeypatch.setattr(reproducing, "_train", lambda *_: ["greedy, seed 0: it diverged"])
    with pytest.raises(UserError, match=r"1 failed, and .* lacks them.*it diverged"):
        reproduce(plan, workers=1, command="python reproduce.py")
    assert "| greedy | – | 20.00 | – |" in (plan.own / "page.md").read_text()


def test_a_plan_is_shown_with_what_is_left(plan, monkeypatch, capsys):
    monkeypatch.setattr(reproducing, "estimate", lambda *_: Estimate(100, 0.5, 10.0, 7))
    reproducing._show_plan(plan, workers=2)
    shown = capsys.readouterr().out
    assert "1 model, 1 seed, 1 run to be trained" in shown
    assert "0 of 1 trained: luong2015,dates," in shown and "(greedy; ensemble, beam 2)" in shown
    assert "may take 60 s" in shown and "--workers=2 60 s" in shown


def test_the_program_tells_what_there_is():
    listed = call("reproduce.py", "--list").stdout
    assert "luong2015.table4" in listed and "30 runs with 3 seeds, about" in listed
    done = call("reproduce.py", "luong2015.tabel4", check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "error: there is no luong2015.tabel4: did you mean luong2015.table4" in done.stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"data": "moon"}, "--data=moon: bai2018.jsb can be run with jsb"),
        ({"size": "small"}, "--size=small: bai2018.jsb has no size to choose"),
    ],
)
def test_what_a_target_cannot_be_run_with_is_told(flags, told, tmp_path):
    given = {"data": "", "size": "", "folder": tmp_path, "seeds": 1, "corpus": "", **flags}
    with pytest.raises(UserError, match=told):
        make_plan("bai2018.jsb", TARGETS["bai2018.jsb"], **given)


def test_a_corpus_that_is_not_there_is_told_once(tmp_path):
    plan = make_plan(
        "bai2018.jsb", TARGETS["bai2018.jsb"], "", "", tmp_path, 1, str(tmp_path / "x")
    )
    with pytest.raises(UserError, match=r"jsb cannot be read: .* does not exist"):
        reproducing._check_corpus(plan)
