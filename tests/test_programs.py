"""Tests of the programs as a user runs them, each in a separate process."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import types

import pytest

import program
from configs.base import base_config
from tests.programs import ROOT, ProgramServer, call


def eval_command(workdir):
    return f"Evaluate this run: python eval.py '--workdir={workdir}' --split=test"


def test_training_leaves_a_record(trained_run):
    flags, workdir, done = trained_run
    assert "4 steps" in done.stderr and "validation:" in done.stderr
    assert done.stderr.splitlines()[-1] == eval_command(workdir)
    config = json.loads((workdir / "config.json").read_text())
    assert config["model"]["attention"]["score"] == "dot" and config["train"]["steps"] == 4
    (record,) = json.loads((workdir / "run.json").read_text())
    assert record["overrides"] == flags[:-1] and record["packages"]["jax"]
    assert len(record["devices"]) == min(2, len(os.sched_getaffinity(0)))  # see divide_cpu
    lines = [json.loads(line) for line in (workdir / "log.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines].count("valid") == 2
    assert min(line["teraflops"] for line in lines if line["kind"] == "train") > 0
    assert "share_of_peak" not in lines[1] and re.search(r"tokens/s, [\d.]+ GFLOP/s,", done.stderr)
    assert list((workdir / "tensorboard").iterdir())


def test_a_complete_run_has_nothing_to_do_and_another_config_is_refused(trained_run):
    flags, workdir, _ = trained_run
    again = call("train.py", *flags, new=True).stderr
    assert "complete after 4 steps" in again
    assert again.splitlines()[-1] == eval_command(workdir)
    other = call("train.py", *flags, "--config.model.dropout=0.5", check=False)
    assert other.returncode == 1
    assert all(fact in other.stderr for fact in (str(workdir), "model.dropout: 0.0", "0.5"))
    assert len(json.loads((workdir / "run.json").read_text())) == 2


def test_a_run_that_diverges_is_an_error(trained_run, tmp_path):
    flags = [*trained_run[0][:-1], f"--workdir={tmp_path}/run", "--config.optimizer.clip_norm=0.0"]
    done = call("train.py", *flags, "--config.optimizer.learning_rate=1e6", check=False)
    *_, last = done.stderr.splitlines()
    assert done.returncode == 1 and last.startswith("error: training diverged at step ")
    assert ", perplexity inf, " in done.stderr and "Traceback" not in done.stderr
    assert "lower optimizer.learning_rate" in last


CLASSIFIER = """
from configs import lin2017

def get_config():
    config = lin2017.get_config("data=tsv,pooling=mean")
    config.train.steps = 1
    config.data.update({"buckets": 1, "batch_size": 8})
    return config
"""


@pytest.mark.slow
def test_a_changed_corpus_is_refused_and_a_missing_one_leaves_no_workdir(tmp_path):
    for split, lines in (("train", 40), ("valid", 4), ("test", 4)):
        text = "".join(f"{i % 2}\tword {i}\n" for i in range(lines))
        (tmp_path / f"{split}.tsv").write_text(text)
    (tmp_path / "mine.py").write_text(CLASSIFIER)  # a config file that a user wrote
    flags = [
        f"--config={tmp_path}/mine.py", f"--config.data.cache={tmp_path}/cache",
        f"--workdir={tmp_path}/run",
    ]  # fmt: skip
    missing = call("train.py", *flags, f"--config.data.dir={tmp_path}/nowhere", check=False)
    assert missing.returncode == 1 and f"{tmp_path}/nowhere" in missing.stderr
    assert not (tmp_path / "run").exists()
    call("train.py", *flags, f"--config.data.dir={tmp_path}")
    with (tmp_path / "train.tsv").open("a") as file:
        file.write("1\tnew\n")
    changed = call("train.py", *flags, f"--config.data.dir={tmp_path}", check=False)
    assert changed.returncode == 1 and "the corpus has changed" in changed.stderr


def test_eval_scores_draws_and_compares(trained_run, tmp_path):
    _, workdir, _ = trained_run
    other, folder = tmp_path / "other", tmp_path / "ours"
    other.mkdir()
    (other / "hypotheses.txt").write_text("Mai\n" * 8)
    done = call(
        "eval.py", f"--workdir={workdir}", "--split=test", "--pictures=1", f"--out={folder}",
        f"--against={other}", "--align_threshold=0.2",
    )  # fmt: skip
    links = "teacher-forced 'attention' weights, threshold 0.2"
    for name in ("Perplexity", "BLEU", "chrF", "Exact match", "version:", links):
        assert name in done.stdout
    kept = json.loads((folder / "scores.json").read_text())
    assert kept["sentences"] == 8 and kept["against"]
    assert (folder / "attention-0.png").exists() and (folder / "hypotheses.txt").exists()
    assert kept["align"] == {"weights": "attention", "threshold": 0.2}
    assert kept["scores"]["alignment_error"] <= 1
    for name in ("hypotheses.links", "references.links"):
        assert (folder / name).read_text().count("\n") == 8
    assert not (workdir / "eval").exists()
    assert done.stdout.splitlines()[-1] == f"Report: {folder}/report.html"
    assert (folder / "report.html").exists()


@pytest.mark.slow
def test_eval_without_a_report_names_the_scores(trained_run, tmp_path):
    folder = tmp_path / "plain"
    flags = ("--pictures=0", "--report=False", f"--out={folder}")
    done = call("eval.py", f"--workdir={trained_run[1]}", *flags)
    assert done.stdout.splitlines()[-1] == f"Scores: {folder}/scores.json"
    assert (folder / "scores.json").exists() and not (folder / "report.html").exists()


@pytest.mark.slow
def test_eval_warns_about_a_damaged_vocabulary(trained_run, tmp_path):
    shutil.copytree(trained_run[1], tmp_path / "run")
    path = tmp_path / "run" / "vocabulary" / "source.vocab"
    path.write_bytes(path.read_bytes()[:-2])
    flags = (f"--workdir={tmp_path}/run", "--pictures=0", "--noreport")
    warning, *_ = call("eval.py", *flags, new=True).stderr.splitlines()
    assert warning.startswith(f"{path} is missing or corrupt")
    assert "run the train.py command of this run again" in warning
    assert "Scores are not affected" in warning


def test_a_missing_corpus_is_answered_with_the_flag_of_eval(tmp_path):
    config = base_config()
    config.data.update({"corpus": "text", "dir": "nowhere"})
    (tmp_path / "config.json").write_text(config.to_json())
    done = call("eval.py", f"--workdir={tmp_path}", "--trust_workdir", check=False)
    assert done.returncode == 1 and "the corpus folder nowhere does not exist" in done.stderr
    assert "with --data_dir=FOLDER;" in done.stderr and "--config" not in done.stderr


# Tests of mistakes that programs report before they import JAX


@pytest.fixture(scope="module")
def train_without_jax(tmp_path_factory):
    """A function that runs train.py without JAX, checks that it fails, and returns its message."""
    folder = tmp_path_factory.mktemp("fake")
    (folder / "jax.py").write_text("raise SystemExit('JAX was imported')\n")
    server = ProgramServer("program", PYTHONPATH=str(folder))

    def run_train(*flags):
        workdir = f"--workdir={folder}/run"
        done = server.run("train.py", [workdir, *flags])
        (line,) = done.stderr.splitlines()
        assert done.returncode == 1 and line.startswith("error: "), line
        assert not (folder / "run").exists()
        return line

    yield run_train
    server.close()


LUONG = "--config=configs/luong2015.py"


def test_a_correct_command_imports_jax(train_without_jax):
    with pytest.raises(AssertionError, match="JAX was imported"):
        train_without_jax(LUONG)


@pytest.mark.parametrize(
    ("flags", "facts"),
    [
        ([LUONG, "--config.optimizer.lerning_rate=1"], ["'lerning_rate'", "learning_rate"]),
        ([LUONG, "--config.model.atention.score=dot"], ["config.model", "'atention'", "attention"]),
        (
            [LUONG, "--config.train.eval_every=often"],
            ["eval_every=often: the value must be"],
        ),
        ([LUONG, "--summary=3"], ["--summary=3: the value must be true or false"]),
        ([LUONG, "--config.model.dropout=much"], ["dropout=much: the value must be a number"]),
        ([LUONG, "--config.train.steps=-1"], ["config.train.steps=-1"]),
        ([LUONG, "--config.model.attention.score=dott"], ["score='dott'", "scaled_dot"]),
        ([LUONG, "--workdri=x"], ["--workdri", "did you mean --workdir?"]),
        ([LUONG, "--steps=9"], ["--steps", "did you mean --config.train.steps?"]),
        ([LUONG, "--lr=1"], ["--lr", "did you mean --config.optimizer.learning_rate?"]),
        ([f"{LUONG},data=dates"], ["write a colon", "configs/luong2015.py:data=dates"]),
        ([f"{LUONG}:score"], ["score has no value"]),
        ([LUONG, "extra"], ["'extra': write flags as --name=value"]),
        ([LUONG, "other.py"], ["'other.py': write flags as --name=value"]),
        (["configs/luong2015.py"], ["did you mean --config=configs/luong2015.py?"]),
        (["my.py:data=dates,size=tiny"], ["did you mean --config=my.py:data=dates,size=tiny?"]),
        ([f"{LUONG}:score=dott"], ["score=dott", "general"]),
        ([f"{LUONG}:sore=dot"], ["'sore=dot'", "did you mean score?"]),
        (["--config=configs/nobody1999.py"], ["configs/nobody1999.py", "luong2015.py"]),
        (["--config=configs/base.py", "--config.seed=1"], ["configs/base.py", "get_config"]),
        (["--config", "configs/luong2015.py", "--config.sed", "1"], ["'sed'", "seed"]),
        (["--config.sed=1", LUONG], ["'sed'", "seed"]),
        (["--config.train.keep=0", LUONG], ["config.train.keep=0"]),
        (["--config.seed=1"], ["--config is missing"]),
        ([], ["--config is missing"]),
        ([LUONG, "--workdir="], ["--workdir is missing"]),
    ],
)
def test_a_mistake_on_the_command_line_is_one_message(flags, facts, train_without_jax):
    message = train_without_jax(*flags)
    assert all(fact in message for fact in facts)


CONFIG_FILE = """
from configs.arguments import parse
from configs.base import base_config

def get_config({parameters}):
    {first}
    config = base_config()
    config.seed = 3
    return config
"""
PARSE = "parse(arguments, size=('tiny', 'paper'))"


def config_file(folder, parameters, first, remove=""):
    path = folder / "mine.py"
    text = CONFIG_FILE.format(parameters=parameters, first=first)
    path.write_text(text.replace(remove, "") if remove else text)
    return path


@pytest.mark.parametrize(
    ("parameters", "first", "arguments"),
    [("", "pass", ""), ("arguments", PARSE, ""), ("arguments=''", PARSE, ":size=paper")],
)
def test_a_user_config_file_is_loaded(parameters, first, arguments, train_without_jax, tmp_path):
    path = config_file(tmp_path, parameters, first)
    flags = ["--config.train.keep=0", f"--config={path}{arguments}", "--config.seed=-4"]
    done = call("train.py", *flags, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    # Both overrides apply, even --config.train.keep, which is given before --config.
    assert "config.train.keep=0" in done.stderr and "config.seed=-4" in done.stderr
    missing = train_without_jax(f"--config={path}{arguments}", "--workdir=")
    assert "--workdir is missing" in missing


@pytest.mark.parametrize(("parameters", "parse"), [("", "pass"), ("arguments", PARSE)])
@pytest.mark.parametrize(
    ("mistake", "arguments", "facts"),
    [
        ("base_confg()", "", ["mine.py, line 6", "base_confg"]),
        ("config = = 1", "", ["mine.py, line 6"]),
        ("import nonesuch", "", ["mine.py, line 6", "nonesuch"]),
        ("base_config().model.droput = 0.0", "", ["mine.py, line 6", "droput"]),
        ("base_config().train.steps = 'many'", "", ["mine.py, line 6", "steps"]),
        ("return {}", "", ["mine.py", "dict"]),
        ("", ":color=red", ["color=red"]),
    ],
)
def test_a_mistake_in_a_config_file_is_one_message(
    parameters, parse, mistake, arguments, facts, train_without_jax, tmp_path
):
    path = config_file(tmp_path, parameters, mistake or parse)
    message = train_without_jax(f"--config={path}{arguments}")
    assert all(fact in message for fact in facts)


def test_a_missing_import_in_a_config_file_is_one_message(train_without_jax, tmp_path):
    path = config_file(tmp_path, "", "pass", remove="from configs.base import base_config\n")
    message = train_without_jax(f"--config={path}")
    assert f"{path}, line 6" in message and "base_config" in message


# This module sends SIGINT, as Ctrl-C does, while it is imported. With KeyboardInterrupt as
# `caught`, the module raises ImportError instead, as some extension modules do.
INTERRUPT = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except {caught}:
    raise ImportError("error while initializing the extension")
"""


def test_ctrl_c_during_the_import_of_jax_ends_quietly(tmp_path):
    (tmp_path / "jax.py").write_text(INTERRUPT.format(caught="KeyboardInterrupt"))
    flags = [LUONG, f"--workdir={tmp_path}/run"]
    done = call("train.py", *flags, check=False, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "")


def test_ctrl_c_while_the_config_is_loaded_ends_quietly(tmp_path):
    (tmp_path / "mine.py").write_text(INTERRUPT.format(caught="ImportError"))
    done = call("train.py", f"--config={tmp_path}/mine.py", check=False)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize(
    "program", ["train.py", "eval.py", "predict.py", "sweep.py", "reproduce.py"]
)
def test_ctrl_c_during_the_first_imports_ends_quietly(tmp_path, program):
    (tmp_path / "absl.py").write_text(INTERRUPT.format(caught="KeyboardInterrupt"))
    done = call(program, check=False, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "\n")


@pytest.mark.parametrize(
    ("program", "required"),
    [
        ("train.py", ["config", "workdir"]), ("eval.py", ["workdir"]), ("predict.py", ["workdir"]),
        ("sweep.py", ["config", "sweep", "workdir"]), ("export.py", ["format", "out", "workdir"]),
        ("lab.py", ["runs"]), ("compare.py", ["runs"]), ("reproduce.py", []),
    ],
)  # fmt: skip
def test_help_shows_a_command_and_the_required_flags(program, required):
    text = call(program, "--help").stdout
    assert f"python {program} " in text
    shown = dict(re.findall(r"^  --(?:\[no\])?(\w+): (.*?)(?=^  -|\Z)", text, re.M | re.S))
    assert [name for name in shown if "(required" in shown[name]] == required
    assert not any("(default: '')" in shown[name] for name in required)
    assert "decode" in shown or program not in ("eval.py", "predict.py")


def test_h_is_help():
    assert call("sweep.py", "-h").stdout == call("sweep.py", "--help").stdout


def test_help_ends_quietly_if_its_reader_ends():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "predict.py", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_exceptions_of_closed_event_loops_are_not_shown(capsys, monkeypatch):
    monkeypatch.setattr(sys, "__unraisablehook__", lambda found: print(found.exc_value))
    for text in ("Event loop is closed", "another error"):
        program._show_unraisable(types.SimpleNamespace(exc_value=RuntimeError(text)))
    assert capsys.readouterr().out == "another error\n"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_freed_memory_is_reused():
    code = """if True:
        import resource, sys, program
        program.keep_freed_memory() if sys.argv[1] == "keep" else None
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            b"x" * 2**27
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)"""
    command = [sys.executable, "-c", code]
    kept, new = (int(subprocess.check_output([*command, x], cwd=ROOT)) for x in ("keep", "not"))
    assert kept < new / 2  # new memory causes one page fault per page
