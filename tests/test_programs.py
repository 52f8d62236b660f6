"""The programs as a user runs them, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SMALL = [
    "--config=configs/luong2015.py:score=dot,data=dates,feed=no",
    "--config.data.examples.train=64",
    "--config.data.examples.valid=8",
    "--config.data.examples.test=8",
    "--config.data.buckets=1",
    "--config.data.batch_size=16",
    "--config.train.steps=4",
    "--config.train.eval_every=2",
]


def call(program, *flags, check=True):
    command = [sys.executable, program, *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("run")
    flags = [*SMALL, f"--config.data.cache={workdir}/cache", f"--workdir={workdir}/run"]
    return flags, workdir / "run", call("train.py", *flags)


def test_training_leaves_a_record(run):
    flags, workdir, done = run
    assert "4 steps in all" in done.stderr and "validation:" in done.stderr
    config = json.loads((workdir / "config.json").read_text())
    assert config["model"]["attention"]["score"] == "dot" and config["train"]["steps"] == 4
    (record,) = json.loads((workdir / "run.json").read_text())
    assert record["overrides"] == flags[:-1] and record["packages"]["jax"]
    kinds = [json.loads(line)["kind"] for line in (workdir / "log.jsonl").read_text().splitlines()]
    assert kinds.count("valid") == 2
    assert list((workdir / "tensorboard").iterdir())


def test_the_same_command_again_has_nothing_to_do_and_another_config_is_refused(run):
    flags, workdir, _ = run
    assert "this run is complete after 4 steps" in call("train.py", *flags).stderr
    other = call("train.py", *flags, "--config.model.dropout=0.5", check=False)
    assert other.returncode == 1
    assert "another config (model.dropout: 0.0 there, 0.5 here)" in other.stderr
    assert len(json.loads((workdir / "run.json").read_text())) == 2


def test_eval_scores_and_draws(run):
    _, workdir, _ = run
    done = call("eval.py", f"--workdir={workdir}", "--split=test", "--pictures=1")
    for name in ("perplexity", "bleu", "chrf", "exact", "version:"):
        assert name in done.stdout
    folder = workdir / "eval" / "test"
    assert json.loads((folder / "scores.json").read_text())["sentences"] == 8
    assert (folder / "attention-0.png").exists() and (folder / "hypotheses.txt").exists()


REFUSED = {
    "config.optimizer has no field 'lerning_rate': it has": "--config.optimizer.lerning_rate=1",
    "config.model has no field 'atention': it has": "--config.model.atention.score=dot",
    "--config.train.eval_every=often": "--config.train.eval_every=often",
    "config.model.attention.score='dott' is not known: it can be dot, general, concat, location": (
        "--config.model.attention.score=dott"
    ),
    "Unknown command line flag 'workdri'": "--workdri=x",
    "what is 'extra'?": "extra",
    "score can be general, dot, concat, location": "--config=configs/luong2015.py:score=dott",
    "there is no config file configs/nobody1999.py": "--config=configs/nobody1999.py",
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_slip_is_one_sentence_before_any_data_is_read(message, tmp_path):
    flags = ["--config=configs/luong2015.py", f"--workdir={tmp_path}/run", REFUSED[message]]
    done = call("train.py", *flags, check=False)
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("program", ["train.py", "eval.py"])
def test_help_says_how_to_run_it(program):
    done = call(program, "--help", check=False)
    assert f"python {program} " in done.stdout and "--workdir" in done.stdout
