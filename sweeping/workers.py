"""Workers take trials from a study and run train.py for each of them.

Every trial is a separate process, so that a crash does not stop the sweep. The folder of a trial is
an ordinary --workdir of train.py. Pruning uses the validation scores in log.jsonl.
"""

import contextlib
import fcntl
import math
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from errors import UserError
from sweeping.devices import Share, train_command, train_environment
from sweeping.points import Point, run_name
from sweeping.study import Study, best_score
from training.records import REMOVE, Entry, best_metrics, read_log
from writing import writing

POLL = 0.5  # seconds between two checks of a run's process, log and stop request
SAVE_SECONDS = 60  # time for a stopped run to save a checkpoint before the run is killed
# Exit codes of train.py after a signal: 128 + signal number, or the negative signal number if
# train.py had not installed its signal handlers yet.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
INTERRUPTED = {code for number in _SIGNALS for code in (128 + number, -number)}


class Flags(Protocol):
    """An object that creates the flags of train.py, such as `Base` or `Plan`."""

    def flags(self, point: Point, seed: int) -> list[str]:
        """Return the flags of train.py for a point and a seed."""
        ...


class Worker(threading.Thread):
    """A thread that runs trials of a study until none are left.

    When `event` is set (a stop request), the current run saves a checkpoint, and the worker stops.
    """

    def __init__(
        self, study: Study, base: Flags, workdir: Path, share: Share, event: threading.Event
    ):
        super().__init__()
        self.study, self.base, self.share, self.event = study, base, share, event
        self.workdir = workdir
        self.current: TrialProcess | None = None  # this worker's run in progress
        self.waits_for = ""  # name of the run to start when another process has left its folder
        self.error: Exception | None = None

    def run(self) -> None:
        """Take and run trials until all have ended; an exception is stored in `error`."""
        try:
            with writing(self.workdir, "run the same command again to continue the sweep"):
                self._run_all()
        except Exception as error:  # work() raises the error again in the main thread
            self.error = error
            self.event.set()

    def _run_all(self) -> None:
        while not self.event.is_set():
            trial = self.study.take()
            if trial is not None:
                self._run_trial(trial)
            elif self.study.over():
                return
            else:
                # Other workers run the last trials. Poll the queue, because a trial is queued again
                # if its worker dies.
                self.event.wait(POLL)

    def _run_trial(self, trial: Trial) -> None:
        facts = trial.user_attrs
        name = run_name(facts["key"], facts["point"])
        folder = self.workdir / "runs" / name / f"seed{facts['seed']}"
        folder.mkdir(parents=True, exist_ok=True)
        before = facts.get("seconds", 0.0)
        try:
            while in_use(folder):  # the trial's previous process may still be saving a checkpoint
                self.waits_for = f"{name}/{folder.name}"
                if self.event.wait(POLL):
                    return self.study.finish(trial, TrialState.FAIL, None, {})
                self.study.heartbeat(trial, before)
            flags = self.base.flags(facts["point"], facts["seed"])
            share = self.share
            with contextlib.closing(TrialProcess(folder, flags, share, self.study, before)) as run:
                self.current, self.waits_for = run, ""
                state = run.watch(trial, self.event)
                self.study.finish(trial, state, run.score(state), run.facts())
        except UpdateFinishedTrialError:
            pass  # another worker took the trial, for example while this machine was suspended
        finally:
            self.current, self.waits_for = None, ""


def in_use(folder: Path) -> bool:
    """Return whether a process is training in a run folder."""
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class TrialProcess:
    """A train.py process that runs one trial.

    `before` is the total duration of earlier attempts at this trial, in seconds.
    """

    def __init__(
        self, folder: Path, flags: Sequence[str], share: Share, study: Study, before: float
    ):
        self.folder, self.study = folder, study
        self.error = ""
        self.lines: list[Entry] = []  # parsed lines of log.jsonl
        self._log_problem = ""  # message about the first damaged line of log.jsonl
        # Modification time and size of log.jsonl at the last reading, to skip an unchanged file.
        self._read: tuple[int, int] | None = None
        self._began = time.monotonic() - before
        with (folder / "output.txt").open("ab") as output:
            self._output_start = output.tell()
            self.process = subprocess.Popen(
                train_command(share, [*flags, f"--workdir={folder.absolute()}"]),
                env=train_environment(share), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches only the sweep, which stops the runs
            )  # fmt: skip

    @property
    def name(self) -> str:
        """The folder of this run within the folder of all runs, such as "score=dot/seed0"."""
        return "/".join(self.folder.parts[-2:])

    @property
    def seconds(self) -> float:
        """Total duration of this attempt and all earlier attempts at the trial, in seconds."""
        return time.monotonic() - self._began

    def watch(self, trial: Trial, event: threading.Event) -> TrialState:
        """Wait until the process ends and return the state of the trial.

        Validation scores are reported to the study. The process is stopped if the study prunes the
        trial, or if `event` is set.
        """
        last_heartbeat, reported, pruned, stopped = -math.inf, 0, False, False
        while self.process.poll() is None:
            if time.monotonic() - last_heartbeat >= self.study.settings.grace / 6:
                self.study.heartbeat(trial, self.seconds)
                last_heartbeat = time.monotonic()
            self.read()
            for score in self.scores[reported:]:
                reported += 1
                if math.isfinite(score):
                    pruned = self.study.should_prune(trial, score, reported) or pruned
            if (pruned or event.is_set()) and not stopped:
                self.process.terminate()  # one signal only: a second would prevent the checkpoint
                stopped = True
            time.sleep(POLL)
        self.read()
        return self._state(pruned, stopped)

    def _state(self, pruned: bool, stopped: bool) -> TrialState:
        code = self.process.returncode
        if code == 0 and not self._log_problem and any(map(math.isfinite, self.scores)):
            return TrialState.COMPLETE
        if pruned:
            return TrialState.PRUNED
        if not stopped and code not in INTERRUPTED:
            message = self._error_message(code)
            # If another process locked the folder after in_use() had checked it, the trial is
            # queued again.
            self.error = "" if " is in use by " in message else message
        return TrialState.FAIL  # if `error` is empty, the trial counts as interrupted

    def _error_message(self, code: int) -> str:
        """Return the last output line of train.py, or a description of its exit code or signal."""
        if code == 0 and self._log_problem:
            return self._log_problem
        if code == 0 and not self.scores:
            return f"{self.folder / 'log.jsonl'} has no validation score: {REMOVE}"
        if code == 0:
            return f"{self.study.settings.metric} was not finite in any validation"
        if code < 0:
            hint = ", possibly because memory ran out" if code == -signal.SIGKILL else ""
            return f"killed by {signal.Signals(-code).name}{hint}"
        with (self.folder / "output.txt").open("rb") as output:
            output.seek(self._output_start)
            lines = output.read().decode("utf-8", errors="replace").splitlines()
        lines = [line.strip() for line in lines if line.strip()]
        return lines[-1].removeprefix("error: ")[:500] if lines else f"exit status {code}"

    def read(self) -> None:
        """Read log.jsonl again if it has changed.

        The whole file is read each time, because a resumed run removes lines from the file.
        """
        path = self.folder / "log.jsonl"
        if not path.exists():
            return
        now = path.stat()
        if (now.st_mtime_ns, now.st_size) == self._read:
            return
        self._read = now.st_mtime_ns, now.st_size
        try:
            self.lines, self._log_problem = read_log(path)
        except UserError as error:  # the file cannot be read
            self.lines, self._log_problem = [], str(error)

    @property
    def scores(self) -> list[float]:
        """Validation scores so far, one per evaluation; NaN if a score was not finite."""
        metric = self.study.settings.metric
        found = [line.get(metric) for line in self.lines if line["kind"] == "valid"]
        return [math.nan if score is None else score for score in found]

    def score(self, state: TrialState) -> float | None:
        """Return the best score of a complete run, otherwise None.

        For a pruned run, Optuna stores the last reported score.
        """
        done = state == TrialState.COMPLETE
        return best_score(self.scores, self.study.lower_is_better) if done else None

    def facts(self) -> dict[str, Any]:
        """Return facts about the run for the leaderboard, such as its duration and parameters."""
        facts: dict[str, Any] = {"seconds": self.seconds}
        if self.error:
            facts["error"] = self.error
        for line in self.lines:
            names = {"run": ["parameters"], "train": ["count", "step"]}.get(line["kind"], [])
            facts |= {name: line[name] for name in names if name in line}
        metrics = best_metrics(self.lines, self.study.settings.metric)
        return facts | {"metrics": metrics} if metrics else facts

    def progress(self) -> tuple[str, ...]:
        """Return point, seed, training step, last score, units per second and duration as text."""
        speeds = [line["count_per_second"] for line in self.lines if "count_per_second" in line]
        point, seed = self.folder.parts[-2:]
        return (
            point, seed.removeprefix("seed"), f"{self.facts().get('step', 0):,}",
            f"{self.scores[-1]:#.4g}" if self.scores else "–",
            f"{speeds[-1]:,.0f}" if speeds else "–", f"{self.seconds:.0f}",
        )  # fmt: skip

    def close(self) -> None:
        """Stop the process if it is still running, after it has saved a checkpoint."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(SAVE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
