"""Tests of reproduce.py: reproduce a small table from training to its page; error messages."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import pytest

import reproduce as reproducing
from errors import UserError
from papers.claims import Claim
from papers.plan import Plan, make_plan
from papers.registry import find_targets
from papers.results import FOLDER
from papers.table import Row, Table
from reproduce import decide, reproduce
from sweeping.estimate import Estimate
from tests.programs import ENVIRONMENT, ROOT, call

_DOT = {"score": "dot", "feed": "no"}
TABLE = Table(
    title="One model, decoded in two ways",
    source="nowhere",
    config="luong2015",
    measures=("tokenized_bleu", "bleu", "perplexity"),
    rows=(
        Row("greedy", _DOT, {}, {"tokenized_bleu": 20.0}),
        Row("ensemble, beam 2", _DOT, {}, {"tokenized_bleu": 21.0}, decode={"beam": 2},
            ensemble=True),
    ),
    data=("dates",),
    minutes=1.0,
    claims=(Claim("greedy", "ensemble, beam 2", "Table 1"),),
    figures=("lengths", "heat_maps"),
)  # fmt: skip
JSB = find_targets()["bai2018.jsb"]
QUICK = {
    "data.examples.train": 32, "data.examples.valid": 8, "data.examples.test": 8,
    "data.buckets": 1, "data.batch_size": 16, "train.steps": 3, "train.eval_every": 3,
    "train.log_every": 3, "train.samples": 0, "model.encoder.features": 4,
    "model.decoder.features": 8, "model.encoder.embedding": 8, "model.decoder.embedding": 8,
}  # fmt: skip


@pytest.fixture
def plan(tmp_path, monkeypatch):
    for name, value in ENVIRONMENT.items():  # reproduce.py passes it to training processes
        monkeypatch.setenv(name, value)
    return make_tiny_plan(tmp_path)


def make_tiny_plan(folder, rows=TABLE.rows):
    overrides = {**QUICK, "data.cache": str(folder / "prepared")}
    table = dataclasses.replace(TABLE, rows=rows, claims=TABLE.claims if len(rows) > 1 else ())
    return Plan("two.rows", table, "dates", "tiny", folder / "results", 1, overrides)


def test_reproducing_a_table_writes_its_page(plan):
    page = reproduce(plan, workers=1, command="python reproduce.py two.rows")
    text = page.read_text()
    assert text.startswith(f"# {TABLE.title}") and "`python reproduce.py two.rows`" in text
    for name in ("greedy", "ensemble, beam 2"):
        (line,) = re.findall(rf"^\| {name} \|.*\|$", text, re.MULTILINE)
        cells = [cell.strip() for cell in line.split("|")][1:-1]
        measured, paper, difference, bleu, perplexity, p, size, tokens, minutes, how = cells[1:]
        mean = float(measured.partition(" ± ")[0])
        assert float(difference) == pytest.approx(mean - float(paper), abs=0.011)
        first = name == "greedy"
        assert (perplexity == "–") == (p != "–") == ("1 × " in size) == (not first)
        assert how == ("greedy" if first else "beam 2") and float(bleu) >= 0
        assert int(tokens.replace(",", "")) > 0 and float(minutes) >= 0
    assert "| greedy → ensemble, beam 2 | undecided | " in text
    assert "tok:none" in text and "tok:13a" in text
    assert {path.name for path in plan.page_folder.glob("*.png")} == {
        "lengths.png", "attention-0.png",
    }  # fmt: skip
    kept = json.loads((plan.page_folder / "results.json").read_text())["rows"]
    assert len(kept["greedy"]["measured"]["bleu"]) == 1 and kept["greedy"]["facts"][0]["count"] > 0

    # A second call does not score the rows again, and another table with one of these rows does
    # not train the run of that row again.
    times = {path: path.stat().st_mtime_ns for path in plan.folder.rglob("scores.json")}
    assert all("ter" not in json.loads(path.read_text("utf-8"))["scores"] for path in times)
    shared = dataclasses.replace(TABLE, rows=TABLE.rows[:1], claims=(), figures=())
    assert len(times) == 2
    reproduce(plan, workers=1, command="again")
    reproduce(plan._replace(target="other", table=shared), workers=1, command="other")
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert len(list(plan.folder.glob("runs/*/seed*/log.jsonl"))) == 1


@pytest.mark.slow
def test_an_ensemble_is_also_scored_without_each_model(plan):
    page = reproduce(plan._replace(seeds=3), workers=1, command="command")
    kept = json.loads((page.parent / "results.json").read_text())["rows"]
    ensemble = kept["ensemble, beam 2"]
    assert len(ensemble["measured"]["bleu"]) == 1 and len(ensemble["left_out"]["bleu"]) == 3
    assert "left_out" not in kept["greedy"] and "3 × " in page.read_text()
    scored = sorted(folder.name for folder in plan.folder.glob("runs/*/ensemble*"))
    assert scored == ["ensemble of 3", *(f"ensemble of 3 without seed{i}" for i in range(3))]


@pytest.mark.slow
def test_decide_trains_more_seeds_of_undecided_claims(plan, capsys):
    """The claim about two decodings is undecided, because neither translates a word correctly."""
    longer = {"train.steps": 4, "train.eval_every": 4}
    rows = (
        Row("3 steps", _DOT),
        Row("4 steps", _DOT, longer),
        Row("4 steps, beam 2", _DOT, longer, decode={"beam": 2}),
    )
    claims = (
        Claim("3 steps", "4 steps", "§1", "perplexity", margin=100.0, equal=True),
        Claim("4 steps", "4 steps, beam 2", "§2"),
    )
    table = dataclasses.replace(TABLE, rows=rows, claims=claims, figures=())
    page = decide(plan._replace(table=table, seeds=2), 1, "command", most_seeds=3)
    shown = capsys.readouterr().out
    assert "round 2 of 2, up to 3 seeds: 1 of 2 claims holds, 1 is undecided" in shown
    assert "over 3 seeds (other numbers of seeds: 3 steps: 2)" in page.read_text()
    kept = json.loads((page.parent / "results.json").read_text())
    seeds = [row["seeds"] for row in kept["rows"].values()]
    assert seeds == [[0, 1], [0, 1, 2], [0, 1, 2]] and kept["confidence"] == 0.975
    assert len(list(plan.folder.glob("runs/*/seed*/log.jsonl"))) == 5


# This program scores the first row of the tiny table with reproduce.py. It runs in a separate
# process, because the compilation cache must be configured before JAX is imported.
SCORE = """
import program, reproduce
from pathlib import Path
from tests.papers.test_reproduce import TABLE, make_tiny_plan

def main(folder):
    reproduce.reproduce(make_tiny_plan(Path(folder), TABLE.rows[:1]), workers=1, command="again")

program.run(main, words=1)
"""


def score_in_a_new_process(folder):
    """In a new process, evaluate every run that has no report yet.

    Return the file names in the default compilation cache.
    """
    environment = {
        **{name: x for name, x in ENVIRONMENT.items() if name != "JAX_COMPILATION_CACHE_DIR"},
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    command = [sys.executable, "-c", SCORE, str(folder)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert len(list(folder.rglob("scores.json"))) == 1
    return {path.name for path in folder.glob("cache/xla-*/*-cache")}


@pytest.mark.slow
def test_scoring_again_uses_the_compilation_cache(plan, tmp_path):
    """Scoring again adds no files to the compilation cache, so nothing is compiled again."""
    assert reproducing._train(plan, workers=1) == []
    first = score_in_a_new_process(tmp_path)
    (report,) = tmp_path.rglob("scores.json")
    shutil.rmtree(report.parent)
    assert first and score_in_a_new_process(tmp_path) == first


def test_importing_reproduce_does_not_import_jax():
    """If reproduce imported JAX, program.run would configure the compilation cache too late."""
    code = "import sys, reproduce; assert 'jax' not in sys.modules, 'jax was imported'"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_a_failed_run_is_reported_and_the_page_is_written(plan, monkeypatch):
    monkeypatch.setattr(reproducing, "_train", lambda *_: ["greedy, seed 0: it diverged"])
    with pytest.raises(UserError, match=r"1 .*failed.*page\.md.*it diverged"):
        reproduce(plan, workers=1, command="python reproduce.py")
    assert "| greedy | – | 20.00 | – |" in (plan.page_folder / "page.md").read_text()


def test_a_dry_run_lists_the_untrained_runs(plan, monkeypatch, capsys):
    monkeypatch.setattr(reproducing, "estimate", lambda *_: Estimate(100, 0.4, 2, 5.0, 10.0, 7))
    reproducing._show_plan(plan, workers=2)
    shown = capsys.readouterr().out
    assert "1 model, 1 seed, 1 run to train" in shown
    assert "0 of 1 trained: luong2015,dates," in shown and "(greedy; ensemble, beam 2)" in shown
    assert "100 steps: 60 s" in shown and "--workers=2: 60 s" in shown


def test_targets_are_listed_and_close_names_suggested():
    listed = call("reproduce.py", "--list").stdout
    assert "luong2015.table4" in listed and "30 runs with 3 seeds, about" in listed
    assert re.search(
        r"imdb \(docs/results/yang2016.flat/page.md\): 2 of 2 claims hold\n +holds  ", listed
    )
    assert "no claims that compare rows" in listed
    done = call("reproduce.py", "luong2015.tabel4", check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "no target luong2015.tabel4: did you mean luong2015.table4" in done.stderr
    done = call("reproduce.py", "mino2017.keys", "--most_seeds=5", check=False)
    assert done.returncode == 1 and "--most_seeds has no effect without --decide" in done.stderr


def test_a_page_of_kept_rows_needs_no_corpus(tmp_path):
    flags = ("bai2018.jsb", "--keep", f"--data_dir={tmp_path / 'none'}", f"--workdir={tmp_path}")
    rows = re.findall(r"^\| .*", (FOLDER / "bai2018.jsb/page.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 6 and set(rows) <= set(call("reproduce.py", *flags).stdout.splitlines())
    assert ", 0 runs to train (3 rows kept)" in call("reproduce.py", *flags, "--dry_run").stdout


def test_a_missing_corpus_is_answered_with_the_flag_of_the_program(tmp_path):
    flags = (f"--data_dir={tmp_path / 'none'}", f"--workdir={tmp_path}")
    done = call("reproduce.py", "bai2018.jsb", *flags, check=False)
    assert done.returncode == 1 and "none does not exist: give the folder" in done.stderr
    assert "with --data_dir=FOLDER;" in done.stderr and "--config" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"data": "moon"}, "--data=moon .*bai2018.jsb.* one of jsb"),
        ({"size": "paper"}, "--size=paper .*bai2018.jsb"),
    ],
)
def test_unavailable_corpora_and_sizes_are_user_errors(flags, message, tmp_path):
    given = {"data": "", "size": "", "folder": tmp_path, "seeds": 1, "corpus": "", **flags}
    with pytest.raises(UserError, match=message):
        make_plan("bai2018.jsb", JSB, **given)


def test_a_missing_corpus_is_reported_before_training(tmp_path):
    plan = make_plan("bai2018.jsb", JSB, "", "", tmp_path, 1, str(tmp_path / "x"))
    with pytest.raises(UserError, match=r"corpus jsb: .* does not exist"):
        reproducing._check_corpus(plan)


def test_the_corpus_is_checked_with_the_vocabularies_of_init_from(tmp_path, monkeypatch):
    from tests.training.test_initialization import start  # late, because it imports JAX (see SCORE)

    plan = make_tiny_plan(tmp_path)
    folder = start(tmp_path / "other", plan.config(plan.table.rows[0]))
    overrides = {"train.init_from": str(folder), "data.vocabularies": "extend"}
    found = []
    monkeypatch.setattr("tasks.registry.make_task", lambda _, initial: found.append(initial))
    reproducing._check_corpus(plan._replace(overrides=plan.overrides | overrides))
    sides = ("source", "target")
    assert found == [{side: folder / "vocabulary" / f"{side}.vocab" for side in sides}]
