"""Tests of the program sweep.py: interruptions, error messages, dry runs and SLURM jobs."""

import collections
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest

from sweeping.slurm import parse_settings, submit
from tests.programs import ENVIRONMENT, QUICK, ROOT, call

CONFIG = [*QUICK, "--config.train.steps=40", "--config.train.eval_every=10"]
POINTS = """
def points():
    for rate in (0.001, 0.002, 0.003):
        yield {"optimizer.learning_rate": rate}
"""


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "points.py").write_text(POINTS)
    cache = f"--config.data.cache={folder / 'cache'}"
    where = [f"--sweep={folder / 'points.py'}", f"--workdir={folder / 'sweep'}"]
    return [*CONFIG, cache, *where, "--workers=2", "--grace=4"]


def trials(folder):
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder / 'study.db'}")
    return study.get_trials(deepcopy=False)


@pytest.mark.slow
def test_a_killed_sweep_continues_and_completes_every_point_once(flags):
    folder = Path(next(f for f in flags if f.startswith("--workdir=")).partition("=")[2])
    command = [sys.executable, "sweep.py", *flags]
    process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    logs = "runs/*/seed0/log.jsonl"
    while not any('"valid"' in path.read_text() for path in folder.glob(logs)):
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = call("sweep.py", *flags)
    assert "rate=0.003" in done.stderr and "| learning_rate |" in done.stdout
    states = collections.Counter((t.user_attrs["key"], t.state.name) for t in trials(folder))
    complete = {key: n for (key, state), n in states.items() if state == "COMPLETE"}
    assert complete == {f"learning_rate={rate}": 1 for rate in (0.001, 0.002, 0.003)}
    # The trials that ran when the sweep was killed are recorded as failed.
    assert sum(n for (_, state), n in states.items() if state == "FAIL") >= 1
    rows = json.loads((folder / "leaderboard.json").read_text())["rows"]
    scores = [row["scores"] for row in rows]
    assert scores == sorted(scores)  # scores are losses, so the best row is first
    assert all(row["count"] and row["seconds"] for row in rows)
    assert (folder / "slices.png").exists()
    # The folder of a trial is a working directory of train.py, so eval.py can score the trial.
    run = folder / "runs" / "learning_rate=0.002" / "seed0"
    call("eval.py", f"--workdir={run}", "--split=test")
    assert (run / "eval" / "test" / "scores.json").exists()
    again = call("sweep.py", *flags)
    assert "1/3" not in again.stderr and "| learning_rate |" in again.stdout
    # The last line of the output is the command that compares all runs.
    command = shlex.split(again.stdout.splitlines()[-1])[1:]
    page = call(*command, f"--out={folder}/page.html")
    assert "has no report of test" in page.stderr and (folder / "page.html").exists()


@pytest.mark.slow
def test_a_stopped_sweep_saves_a_checkpoint_of_its_runs(flags, tmp_path):
    others = [f for f in flags if not f.startswith(("--workdir", "--workers"))]
    folder = tmp_path / "sweep"
    command = [
        sys.executable,
        "sweep.py",
        *others,
        f"--workdir={folder}",
        "--config.train.steps=4000",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    while not any('"valid"' in p.read_text() for p in folder.glob("runs/*/seed0/log.jsonl")):
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "the same command" in errors
    (output,) = folder.glob("runs/*/seed0/output.txt")
    assert "saved after step" in output.read_text()


def test_an_invalid_point_is_a_user_error(flags, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("def points():\n    yield {'model.atention': 3}\n")
    done = call("sweep.py", *flags, f"--sweep={wrong}", check=False)
    assert done.returncode == 1 and "the config of the point atention=3 is invalid" in done.stderr


@pytest.mark.slow
def test_a_dry_run_estimates_the_time_and_writes_nothing(flags, tmp_path):
    done = call("sweep.py", *flags, f"--workdir={tmp_path / 'none'}", "--dry_run", "--seeds=2")
    assert "learning_rate=0.002" in done.stdout and "6 runs" in done.stdout
    assert "40 steps" in done.stdout
    assert "training the first run for 40 training steps" in done.stdout
    assert "Evaluate this run" not in done.stderr  # its folder is temporary
    assert not (tmp_path / "none").exists()


def test_slurm_settings_are_parsed():
    found = parse_settings("partition=gpu,timeout_min=600,gpus_per_node=1")
    assert found == {"slurm_partition": "gpu", "timeout_min": 600, "gpus_per_node": 1}


def test_slurm_jobs_run_the_program(tmp_path):
    """Use the local executor of submitit, which has the same interface as its SLURM executor."""
    pytest.importorskip("submitit")
    jobs = submit(["--workdir=x"], 2, {"timeout_min": 2}, tmp_path, cluster="local")
    for job in jobs:
        assert "--config is missing" in str(job.exception())


def test_runs_receive_sigterm_when_the_sweep_dies(tmp_path):
    """On SIGTERM, a run saves a checkpoint before it ends."""
    child = f"import time; open({str(tmp_path / 'pid')!r}, 'w').write('x'); time.sleep(60)"
    parent = (
        "import subprocess, sys, os, time; "
        "command = [sys.executable, 'sweeping/launch.py', str(os.getpid()), '', '-c']; "
        f"p = subprocess.Popen([*command, {child!r}]); print(p.pid, flush=True); p.wait()"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT, stdout=subprocess.PIPE)
    pid = int(process.stdout.readline())
    while not (tmp_path / "pid").exists():
        time.sleep(0.05)
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":  # a zombie has ended
            return
        time.sleep(0.05)
    raise AssertionError("the child process is still running")
