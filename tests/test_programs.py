"""The programs as a user runs them, in processes of their own."""

import json
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

import program
from tests.programs import ENVIRONMENT, ROOT, SMALL, call


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


def test_a_changed_corpus_is_refused_and_a_missing_one_leaves_no_workdir(tmp_path):
    for split, lines in (("train", 40), ("valid", 4), ("test", 4)):
        text = "".join(f"{i % 2}\tword {i}\n" for i in range(lines))
        (tmp_path / f"{split}.tsv").write_text(text)
    flags = [  # what compiles in a moment
        "--config=configs/lin2017.py:data=tsv,pooling=mean", "--config.train.steps=1",
        "--config.data.buckets=1", f"--config.data.cache={tmp_path}/cache",
        "--config.data.batch_size=8", f"--workdir={tmp_path}/run",
    ]  # fmt: skip
    missing = call("train.py", *flags, f"--config.data.dir={tmp_path}/nowhere", check=False)
    assert missing.returncode == 1 and "does not exist" in missing.stderr
    assert not (tmp_path / "run").exists()
    call("train.py", *flags, f"--config.data.dir={tmp_path}")
    with (tmp_path / "train.tsv").open("a") as file:
        file.write("1\tnew\n")
    changed = call("train.py", *flags, f"--config.data.dir={tmp_path}", check=False)
    assert changed.returncode == 1 and "the corpus has changed since" in changed.stderr


def test_eval_scores_draws_and_compares(run, tmp_path):
    _, workdir, _ = run
    other, folder = tmp_path / "other", tmp_path / "ours"
    other.mkdir()
    (other / "hypotheses.txt").write_text("Mai\n" * 8)
    done = call(
        "eval.py", f"--workdir={workdir}", "--split=test", "--pictures=1", f"--out={folder}",
        f"--against={other}",
    )  # fmt: skip
    for name in ("perplexity", "bleu", "chrf", "exact", "version:"):
        assert name in done.stdout
    kept = json.loads((folder / "scores.json").read_text())
    assert kept["sentences"] == 8 and kept["against"]
    assert (folder / "attention-0.png").exists() and (folder / "hypotheses.txt").exists()
    assert not (workdir / "eval").exists()


REFUSED = {
    "config.optimizer has no field 'lerning_rate': it has": "--config.optimizer.lerning_rate=1",
    "config.model has no field 'atention': it has": "--config.model.atention.score=dot",
    "--config.train.eval_every=often": "--config.train.eval_every=often",
    "config.model.attention.score='dott' is not known: it can be dot, scaled_dot, general": (
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


def test_a_missing_workdir_or_config_is_a_sentence(tmp_path):
    for flags, message in (
        (["--config=configs/luong2015.py"], "--workdir is missing: name the folder"),
        (["--config=configs/luong2015.py", "--workdir="], "--workdir is missing: name the folder"),
        ([f"--workdir={tmp_path}/run"], "--config is missing: name a file"),
        (
            ["--config=configs/none.py", "--config.seed=1"],
            "there is no config file configs/none.py",
        ),
        (["--config=configs/base.py", "--config.seed=1"], "is no config file"),
    ):
        done = call("train.py", *flags, check=False)
        assert done.returncode == 1 and message in done.stderr
        assert "Traceback" not in done.stderr


def test_a_slip_in_a_config_file_is_no_new_field(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from configs.luong2015 import base_config\n"
        "def get_config(arguments=''):\n"
        "    config = base_config()\n"
        "    config.model.droput = 0.0\n"
        "    return config\n"
    )
    done = call("train.py", f"--config={mine}", f"--workdir={tmp_path}/run", check=False)
    assert done.returncode == 1 and "droput" in done.stderr and "Traceback" not in done.stderr


def test_a_slip_beside_a_spaced_flag_is_a_sentence_too(tmp_path):
    flags = ["--config", "configs/luong2015.py", "--config.sed", "1", "--workdir", f"{tmp_path}"]
    done = call("train.py", *flags, check=False)
    assert "config has no field 'sed': it has" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("program", ["train.py", "eval.py"])
def test_help_says_how_to_run_it(program):
    done = call(program, "--help", check=False)
    assert f"python {program} " in done.stdout and "--workdir" in done.stdout
    assert {"train.py": "--config", "eval.py": "--decode"}[program] + ": " in done.stdout


def translate(workdir, *flags, text):
    command = [sys.executable, "translate.py", f"--workdir={workdir}", *flags]
    return subprocess.run(
        command, cwd=ROOT, input=text, capture_output=True, timeout=300, env=ENVIRONMENT
    )


def test_lines_are_translated_in_their_order(run, tmp_path):
    _, workdir, _ = run
    text = b"May 3, 2020\n\nMonday, January 30, 2023, 4:21 PM\n\xff bad\n4:21 PM\n"
    files = f"--attention={tmp_path}/a.jsonl", f"--pictures={tmp_path}/pictures"
    done = translate(workdir, *files, text=text)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert len(lines) == 5 and lines[1] == lines[3] == ""
    assert b"line 4 is not UTF-8" in done.stderr
    records = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [record["line"] for record in records] == [0, 1, 2, 3, 4]
    assert np.shape(records[0]["attention"]) == (len(records[0]["target"]), 8)
    drawn = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert drawn == {f"{r['line']}.png" for r in records if r["target"]}


def test_at_a_terminal_a_line_is_asked_for_and_its_unknown_words_told(run, tmp_path):
    ours, theirs = pty.openpty()
    command = ["translate.py", f"--workdir={run[1]}", f"--pictures={tmp_path}"]
    process = subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, env=ENVIRONMENT, stdin=theirs,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.write(ours, b"May 3, 2020 pizza\n\x04")  # and the end
    said, told = process.communicate(timeout=300)
    assert process.returncode == 0 and said.startswith(b"> ")
    assert b"never seen in training: pizza" in told and (tmp_path / "0.png").exists()


def test_two_runs_are_an_ensemble_and_give_several_hypotheses(run):
    _, workdir, _ = run
    both = f"{workdir},{workdir}"
    done = translate(both, "--decode.beam=2", "--decode.nbest=2", text=b"May 3, 2020\n")
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
    assert [row[0] for row in rows] == ["0", "0"]
    scores = [float(row[1]) for row in rows]
    assert len(scores) == 2 and scores[0] >= scores[1]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--decode.beam=0"], "decode.beam=0 is out of range"),
        (["--decode.nbest=3"], "nbest=3 is more than"),
        (["--checkpoint=first"], "no checkpoint 'first': it can be best, last"),
        (["--dictionary=nowhere.tsv"], "add --decode.replace_unknown=True"),
        (
            ["--dictionary=nowhere.tsv", "--decode.replace_unknown=True"],
            "cannot read the dictionary nowhere.tsv",
        ),
        (["--decode.bem=5"], "decode has no field 'bem': it has alpha"),
        (["--attention=nowhere/a.jsonl"], "cannot write nowhere/a.jsonl"),
        (["--pictures=README.md/a"], "cannot write to README.md/a"),
    ],
)
def test_mistakes_in_translating_are_one_sentence(run, flags, message):
    done = translate(run[1], *flags, text=b"May 3, 2020\n")
    assert done.returncode == 1
    assert message in done.stderr.decode() and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes", "make data.batch_size"),
        ("Unable to initialize backend 'cuda': RESOURCE_EXHAUSTED: no memory", "nvidia-smi"),
        ("INTERNAL: Failed to initialize BLASLT support", "nvidia-smi"),
        ("UNKNOWN: Gloo allreduce failed", "give all of them the same command again"),
        ("INTERNAL: something of XLA's own", ""),
    ],
)
def test_errors_of_devices_say_what_to_do(error, advice):
    said = program._explained(RuntimeError(error))
    assert advice in said and bool(said) == bool(advice)
