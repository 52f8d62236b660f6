"""Tests of runs that are killed, stopped by a signal, or out of disk space.

The environment variable FAULTS sets how many times runs are killed.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.programs import ENVIRONMENT, QUICK, ROOT, SMALL, call
from tests.saved import committed, saved_arrays, uncommitted

KILLS = int(os.environ.get("FAULTS", "2"))
STEPS = 40 if KILLS < 10 else 400


def assert_same_bits(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def killed(command, told, workdir, rng, life, when):
    """Run a training command and kill it at a random moment.

    `when` is "life" (any moment), "training" (after compilation) or "writing" (while a checkpoint
    is written). `life` is the duration of a whole run in seconds, `told` the file for the output.
    Return the number of seconds until the kill, or None if the run ended first.
    """
    with told.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, stderr=file, env=ENVIRONMENT)
        began, delay = time.monotonic(), rng.uniform(0, life)

        def wait(ready):
            while process.poll() is None and not ready():
                time.sleep(0.002)

        if when != "life":
            wait(lambda: "compiled in" in told.read_text())
            delay = rng.uniform(0, life / 4)
        if when == "writing":
            wait(lambda: time.monotonic() > began + life / 8)
            wait(lambda: uncommitted(workdir))
            delay = rng.uniform(0, 0.03)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return time.monotonic() - began
    assert process.returncode == 0, told.read_text()
    return None


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Train a run that nobody stops; return its flags, seconds, final checkpoint arrays and log."""
    folder = tmp_path_factory.mktemp("whole")
    flags = [*QUICK, f"--config.data.cache={folder}/cache"]
    flags += [f"--config.train.{x}" for x in (f"steps={STEPS}", "eval_every=4", "log_every=4")]
    began = time.monotonic()
    call("train.py", *flags, f"--workdir={folder}/run")
    life = time.monotonic() - began
    return flags, life, saved_arrays(folder / "run", STEPS), (folder / "run/log.jsonl").read_text()


@pytest.mark.slow
def test_a_run_that_is_killed_repeatedly_ends_in_the_same_bits(whole, tmp_path):
    flags, life, expected, log = whole
    workdir, rng, kills = tmp_path / "parts", random.Random(KILLS), 0
    command = [sys.executable, "train.py", *flags, f"--workdir={workdir}"]
    while kills < KILLS:
        when = ("writing", "training", "life")[kills % 3]
        seconds = killed(command, tmp_path / "told", workdir, rng, life, when)
        # The run ended before the kill, which does not count: start a new run.
        if seconds is None:
            assert_same_bits(expected, saved_arrays(workdir, STEPS))
            shutil.rmtree(workdir)
            continue
        kills += 1
        found = f"{list(committed(workdir))}, {len(uncommitted(workdir))} partial"
        print(f"kill {kills} ({when}): after {seconds:.1f} of {life:.1f} s; checkpoints {found}")
    done = call("train.py", *flags, f"--workdir={workdir}")
    assert "corrupt" not in done.stderr and not (workdir / "quarantine").exists()
    assert_same_bits(expected, saved_arrays(workdir, STEPS))
    assert not uncommitted(workdir)  # the last run removed partial checkpoints
    parts = (workdir / "log.jsonl").read_text()
    assert log.count('"valid"') == parts.count('"valid"') == STEPS // 4


@pytest.mark.slow
def test_a_run_that_was_stopped_ends_in_the_same_bits(whole, tmp_path):
    flags, _, expected, _ = whole
    command = [sys.executable, "train.py", *flags, f"--workdir={tmp_path}/run"]
    pipe = {"stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    with subprocess.Popen(command, cwd=ROOT, **pipe) as process:
        for line in process.stderr:
            if line.startswith("step 8/"):
                process.send_signal(signal.SIGTERM)
                break
        rest = process.stderr.read()
    assert process.returncode == 128 + signal.SIGTERM
    assert "SIGTERM: saved after step" in rest and "Traceback" not in rest
    call("train.py", *flags, f"--workdir={tmp_path}/run")
    assert_same_bits(expected, saved_arrays(tmp_path / "run", STEPS))


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk with space for one checkpoint; yield its folder and a function to enlarge it."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
        return subprocess.run(command, capture_output=True).returncode == 0

    if not mount("size=1800k"):
        pytest.skip("mounting a small disk needs root")
    yield folder, lambda: mount("remount,size=64m")
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_keeps_the_saved_checkpoint(small_disk, tmp_path):
    folder, enlarge = small_disk
    flags = [*SMALL, f"--config.data.cache={tmp_path}/cache", f"--workdir={folder}/run"]
    full = call("train.py", *flags, check=False)
    assert full.returncode == 1
    *_, last = full.stderr.splitlines()
    assert last.startswith("error: ") and "No space left on device" in last
    assert enlarge()
    assert "resuming after step 2" in call("train.py", *flags).stderr
    assert saved_arrays(folder / "run", 4)
