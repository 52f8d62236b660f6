"""Tests of sweep workers, which read a run's log, exit status and last line of output."""

import fcntl
import logging
import sys
import textwrap
import threading

import pytest
from optuna.trial import TrialState

from errors import UserError
from sweeping import devices, workers
from sweeping.devices import Share, machine_shares
from sweeping.points import Base, Sweep
from sweeping.settings import Settings
from sweeping.study import Study
from sweeping.watch import work
from sweeping.workers import Worker
from training.records import read_log

BASE = Base("configs/luong2015.py", {}, {})
# The beginning of each program that replaces train.py in these tests. Such a program writes a log
# like that of train.py, but starts faster.
HEAD = """
import json, signal, sys, time
from pathlib import Path
folder = Path(next(a for a in sys.argv if a.startswith("--workdir=")).partition("=")[2])
seed = int(next(a for a in sys.argv if a.startswith("--config.seed=")).partition("=")[2])
def write(kind, step, **values):
    with (folder / "log.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "kind": kind, **values}) + "\\n")
write("run", 0, parameters=11, steps=30, epoch=10)
"""


@pytest.fixture
def make_study(tmp_path, monkeypatch):
    """Return a function that creates a study of two points whose runs execute `program`."""
    monkeypatch.setattr(workers, "POLL", 0.05)

    def make(program, **settings):
        path = tmp_path / "program.py"
        path.write_text(HEAD + textwrap.dedent(program))
        monkeypatch.setattr(
            workers, "train_command", lambda share, flags: [sys.executable, str(path), *flags]
        )
        points = [{"model.attention.D": i} for i in (1, 2)]
        found = Settings(**{"metric": "bleu", **settings})
        return Study(f"sqlite:///{tmp_path}/study.db", "x", Sweep(points, None), found, {})

    return make


@pytest.fixture
def sweep(tmp_path, make_study):
    """Return a function that runs `program` for two points and returns the trials' records."""

    def run(program, stop=None, **settings):
        study, event = make_study(program, **settings), threading.Event()
        worker = Worker(study, BASE, tmp_path, Share([], {}), event)
        worker.start()
        if stop:
            while not stop(tmp_path):
                worker.join(0.05)
            event.set()
        worker.join(60)
        assert worker.error is None and not worker.is_alive()
        return study.records()

    return run


def test_the_best_score_and_the_facts_of_a_run_are_recorded(sweep):
    first, second = sweep("""
        for step, bleu in ((10, 3.0), (20, 5.0), (30, None)):
            write("train", step, count=step * 7.0, count_per_second=1.0)
            write("valid", step, bleu=bleu, loss=9.0 - step / 10, chrf=None)
    """)
    assert first.facts["metrics"] == {"bleu": 5.0, "loss": 7.0}  # of the best evaluation
    assert (first.state, first.score) == (TrialState.COMPLETE, 5.0)
    assert (first.facts["parameters"], first.facts["count"]) == (11, 210.0)
    assert first.facts["seconds"] > 0 and second.point == {"model.attention.D": 2}


def test_an_error_is_recorded_and_the_sweep_continues(sweep, tmp_path):
    first, second = sweep("""
        if "D=1" in str(folder):
            sys.exit("before\\nerror: the disk is full")
        write("valid", 10, bleu=1.0)
    """)
    assert (first.state, first.facts["error"]) == (TrialState.FAIL, "the disk is full")
    assert second.state == TrialState.COMPLETE
    assert "before" in (tmp_path / "runs" / "D=1" / "seed0" / "output.txt").read_text()


def test_killed_runs_and_runs_without_a_score_are_errors(sweep):
    killed, scoreless = sweep("""
        import os
        if "D=1" in str(folder):
            os.kill(os.getpid(), signal.SIGKILL)
        write("valid", 10, bleu=None)
    """)
    assert "memory" in killed.facts["error"] and "bleu" in scoreless.facts["error"]


def test_stopping_sends_one_signal_and_queues_the_trial_again(sweep, tmp_path):
    first, second = sweep(
        """
        def stop(*_):
            (folder / "asked").open("a").write("x")
            time.sleep(0.5)
            sys.exit(143)
        signal.signal(signal.SIGTERM, stop)
        write("valid", 10, bleu=1.0)
        time.sleep(60)
        """,
        stop=lambda folder: (
            (folder / "runs/D=1/seed0/log.jsonl").exists()
            and "valid" in (folder / "runs/D=1/seed0/log.jsonl").read_text()
        ),
    )
    assert (tmp_path / "runs/D=1/seed0/asked").read_text() == "x"
    assert first.state == TrialState.FAIL and "error" not in first.facts
    assert second.state == TrialState.WAITING


def test_a_run_is_pruned_because_of_its_scores(sweep, monkeypatch):
    import optuna

    from sweeping import study

    class Second(optuna.pruners.BasePruner):
        def prune(self, study, trial):
            return trial.number == 1 and trial.last_step >= 2

    monkeypatch.setitem(study.MAKE_PRUNER, "median", Second)
    first, second = sweep(
        """
        for step in (10, 20):
            write("valid", step, bleu=float(step))
        if "D=2" in str(folder):
            time.sleep(60)
        """,
        pruner="median",
    )
    assert first.state == TrialState.COMPLETE
    assert (second.state, second.score) == (TrialState.PRUNED, 20.0)


def test_cores_and_gpus_are_divided_among_workers(monkeypatch):
    monkeypatch.setattr(devices, "_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(devices, "_gpus", list)
    assert [share.cores for share in machine_shares(2)] == [[0, 2], [1, 3]]
    assert machine_shares(6)[5].cores == [1]
    monkeypatch.setattr(devices, "_gpus", lambda: ["0", "1", "2"])
    assert [s.environment["CUDA_VISIBLE_DEVICES"] for s in machine_shares(2)] == ["0,2", "1"]
    for name in devices.MEMORY:
        monkeypatch.delenv(name, raising=False)
    shared = machine_shares(6)[4].environment
    assert shared == {"CUDA_VISIBLE_DEVICES": "1", "XLA_CLIENT_MEM_FRACTION": "0.450"}


def test_workers_on_one_gpu_divide_its_memory(monkeypatch):
    monkeypatch.setattr(devices, "_gpus", lambda: ["0"])
    for name in devices.MEMORY:  # set one at a time, because JAX rejects both at once
        monkeypatch.setenv(name, "0.4")
        assert machine_shares(2)[1].environment == {"CUDA_VISIBLE_DEVICES": "0", name: "0.200"}
        monkeypatch.setenv(name, "much")
        with pytest.raises(UserError, match=f"{name}=much "):
            machine_shares(2)
        monkeypatch.delenv(name)


def test_only_visible_gpus_are_used(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-abc")
    assert devices._gpus() == ["3", "GPU-abc"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices._gpus() == []


def test_lines_of_nvidia_smi_that_are_no_gpus_are_not_counted(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for output, gpus in {
        "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 3g.20gb     Device  0: (UUID: MIG-1)": ["0"],
        "NVIDIA-SMI has failed because it could not communicate with the driver.": [],
    }.items():
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho '{output}'\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
        assert devices._gpus() == gpus


def test_a_run_waits_until_its_folder_is_unlocked(make_study, tmp_path, monkeypatch, caplog):
    """The training process of a killed sweep may still be saving a checkpoint in the folder."""
    folder = tmp_path / "runs" / "D=1" / "seed0"
    folder.mkdir(parents=True)
    holder = (folder / "lock").open("a")
    fcntl.flock(holder, fcntl.LOCK_EX)

    class Release(logging.Handler):
        def emit(self, record):
            message = record.getMessage()
            if "waiting for D=1/seed0" in message:
                holder.close()

    caplog.set_level("INFO", "alignax")
    monkeypatch.setattr(logging.getLogger("alignax"), "handlers", [Release()])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    study = make_study("write('valid', 10, bleu=1.0)", grace=60)
    first, _ = work(study, BASE, tmp_path, 1)
    assert first.state == TrialState.COMPLETE and holder.closed


def test_a_worker_gives_up_a_trial_that_another_worker_took_while_it_waited(make_study, tmp_path):
    folder = tmp_path / "runs" / "D=1" / "seed0"
    folder.mkdir(parents=True)
    study = make_study("write('valid', 10, bleu=1.0)")
    worker = Worker(study, BASE, tmp_path, Share([], {}), threading.Event())
    with (folder / "lock").open("a") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        worker.start()
        while not worker.waits_for:
            worker.join(0.05)
        (waiting,) = study._study.get_trials(states=[TrialState.RUNNING])
        study._storage.set_trial_state_values(waiting._trial_id, TrialState.COMPLETE, [7.0])
        while worker.waits_for and worker.is_alive():
            worker.join(0.05)
    worker.join(60)
    assert worker.error is None
    assert [record.score for record in study.records()] == [7.0, 1.0]


def test_an_incomplete_line_of_the_log_is_ignored(sweep, tmp_path):
    first, _ = sweep("""
        write("valid", 10, bleu=1.0)
        (folder / "log.jsonl").open("ab").write(b'{"step": 3, "te\\xc3')
    """)
    assert first.score == 1.0


@pytest.mark.parametrize(
    "line",
    ["3", "[]", "null", "nonsense", "{}", '{"kind": 3}', '{"kind": "train", "count": "many"}',
     '{"kind": "valid", "bleu": "high"}', '{"kind": "run", "parameters": [1]}', "[" * 99999],
)  # fmt: skip
def test_lines_with_wrong_types_are_reported(tmp_path, line):
    (tmp_path / "log.jsonl").write_text('{"kind": "valid", "bleu": null}\n' + line + "\n{")
    entries, problem = read_log(tmp_path / "log.jsonl")
    assert entries == [{"kind": "valid", "bleu": None}]
    assert "log.jsonl is corrupt (" in problem and "remove the folder of the run" in problem


def test_a_damaged_line_of_the_log_is_the_error_of_its_run(sweep):
    first, second = sweep("""
        if "D=1" in str(folder):
            (folder / "log.jsonl").open("a").write("[]\\n")
        write("valid", 10, bleu=1.0)
    """)
    assert first.state == TrialState.FAIL and second.state == TrialState.COMPLETE
    assert "log.jsonl is corrupt (line 2 is a list instead of an object)" in first.facts["error"]


def test_a_log_that_cannot_be_read_is_the_error_of_its_run(sweep):
    first, second = sweep("""
        (folder / "log.jsonl").unlink()
        if "D=1" in str(folder):
            (folder / "log.jsonl").mkdir()
    """)
    assert "cannot read" in first.facts["error"] and "log.jsonl" in first.facts["error"]
    assert "log.jsonl has no validation score" in second.facts["error"]


def test_a_run_that_is_terminated_from_outside_is_resumed(sweep):
    first, _ = sweep("""
        import os
        if not (folder / "again").exists():
            (folder / "again").touch()
            os.kill(os.getpid(), signal.SIGTERM)
        write("valid", 10, bleu=2.0)
    """)
    assert (first.state, first.score) == (TrialState.COMPLETE, 2.0)


def test_a_run_that_another_process_locked_first_is_queued_again(sweep):
    """The first attempt finds the run's folder locked, and the second finds the folder unlocked."""
    records = sweep("""
        if not (folder / "late").exists():
            (folder / "late").touch()
            sys.exit(f"error: {folder} is in use by process 7: wait for its end")
        write("valid", 1, bleu=2.0)
    """)
    assert [record.score for record in records] == [2.0, 2.0]
    assert not any("error" in record.facts for record in records)
