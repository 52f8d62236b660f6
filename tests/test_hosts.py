"""Tests of multi-host runs, with several connected processes on this machine."""

import json
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.programs import ENVIRONMENT, QUICK, ROOT, call
from tests.saved import committed, saved_arrays

LONGER = [f"--config.train.{x}" for x in ("steps=60", "eval_every=20", "log_every=5")]


# A training program that takes 40 seconds longer than usual to prepare its corpus.
LATE = """
import time
from tasks import registry
make_task = registry.make_task
registry.make_task = lambda *given, **named: time.sleep(40) or make_task(*given, **named)
import program, train
program.run(train.main)
"""


def start(count, flags, devices=1, of_last=(), program=("train.py",)):
    """Start `count` processes of one run.

    The last one also gets the flags `of_last`, and it runs `program`.
    """
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    xla = f"{ENVIRONMENT['XLA_FLAGS']} --xla_force_host_platform_device_count={devices}"
    return [
        subprocess.Popen(
            [sys.executable, *(program if i == count - 1 else ["train.py"]), *flags,
             *of_last[: count * (i == count - 1)],
             f"--coordinator=localhost:{port}",
             f"--processes={count}", f"--process={i}"],
            cwd=ROOT, env=ENVIRONMENT | {"XLA_FLAGS": xla}, stderr=subprocess.PIPE, text=True,
        )
        for i in range(count)
    ]  # fmt: skip


def ends(processes):
    """Wait for all processes; return the remaining output and the exit status of each."""
    try:
        return [(process.communicate(timeout=300)[1], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()


def validations(workdir):
    lines = map(json.loads, (workdir / "log.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "valid"}


@pytest.mark.slow
@pytest.mark.parametrize(("count", "then"), [(2, 1), (4, 2)], ids=str)
def test_hosts_stop_together_and_a_resumed_run_matches_a_single_process(tmp_path, count, then):
    flags = [*QUICK, *LONGER, f"--config.data.cache={tmp_path}/cache"]
    call("train.py", *flags, f"--workdir={tmp_path}/one")
    flags.append(f"--workdir={tmp_path}/many")
    processes = start(count, flags)
    for line in processes[0].stderr:
        if line.startswith("step 20, validation"):  # long before the last training step
            port = int(next(x for x in processes[0].args if "localhost:" in x).rpartition(":")[2])
            # The coordinator listens on localhost only, not on all addresses of this machine.
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), timeout=10)
            processes[-1].send_signal(signal.SIGINT)
            break
    for told, code in ends(processes):
        assert code == 128 + signal.SIGINT, told
        assert "SIGINT: saved after step" in told
    assert 20 <= max(committed(tmp_path / "many")) < 40
    processes = start(then, [*flags, "--config.mesh.state_shards=2"], devices=2)
    for i, (told, code) in enumerate(ends(processes)):
        assert code == 0, told
        # All processes train one run, so only the first one prints how to evaluate the run.
        assert ("Evaluate this run: python eval.py" in told) == (i == 0)
    alone, together = (validations(tmp_path / name) for name in ("one", "many"))
    assert list(alone) == list(together) == [20, 40, 60]
    np.testing.assert_allclose(list(alone.values()), list(together.values()), rtol=1e-4)
    expected, found = (saved_arrays(tmp_path / name, 60) for name in ("one", "many"))
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-6, err_msg=name)
    assert len(json.loads((tmp_path / "many" / "run.json").read_text())) == 2


def test_an_error_in_one_process_ends_all_processes(tmp_path):
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            (tmp_path / f"{split}.{language}").write_text("a b\n" * 8)
    flags = ["--config=configs/luong2015.py:data=text", f"--config.data.cache={tmp_path}/cache"]
    flags += [f"--workdir={tmp_path}/run", f"--config.data.dir={tmp_path}"]
    (told, code), (other_told, other_code) = ends(start(2, flags, of_last=[f"{flags[-1]}/gone"]))
    assert (code, other_code) == (1, 1)
    assert "error: another process of this run stopped" in told
    assert "gone does not exist" in other_told
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_process_waits_for_another_that_prepares_its_corpus(tmp_path):
    flags = [*QUICK, "--config.train.steps=4", "--config.train.eval_every=2"]
    flags += [f"--config.data.cache={tmp_path}/cache", f"--workdir={tmp_path}/run"]
    (told, code), (other_told, other_code) = ends(start(2, flags, program=("-c", LATE)))
    assert (code, other_code) == (0, 0), told + other_told
    assert "waiting for process 1 of this run: 30 s (at most 6 hours)" in told


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda x: x.name)
def test_a_lost_process_ends_the_other_with_one_message(tmp_path, number, victim):
    flags = [
        *QUICK,
        *LONGER,
        "--config.train.steps=100000",
        f"--config.data.cache={tmp_path}/cache",
    ]
    processes = start(2, [*flags, f"--workdir={tmp_path}/run"])
    for line in processes[0].stderr:
        if line.startswith("step 20, validation"):
            break
    processes[victim].send_signal(number)
    began, survivor = time.monotonic(), processes[1 - victim]
    try:
        told = survivor.communicate(timeout=150)[1]
    finally:
        for process in processes:
            process.kill()
        processes[victim].communicate()
    assert survivor.returncode == 1, told
    assert time.monotonic() - began < 120
    *progress, message = told.strip().splitlines()
    assert message.startswith(f"error: process {victim} of this run")
    assert "run the same command again on all hosts to resume" in message
    assert all(line.startswith("step ") for line in progress), told
