"""Workers take trials and run train.py for each, a process of its own: no trial can bring down the
sweep, and each leaves an ordinary workdir.

The scores that train.py writes to its log.jsonl are what trials are pruned by.
"""

import contextlib
import fcntl
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from sweeping.devices import Share
from sweeping.points import Point, run_name
from sweeping.study import Study, better

POLL = 0.5  # seconds between two looks at a run
PATIENCE = 60  # seconds for a run to save what it has
ROOT = Path(__file__).parent.parent
# How train.py ends when it is asked to: with a status, or before it listens, at once.
_ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)
INTERRUPTED = {code for number in _ASKED for code in (128 + number, -number)}


class Flags(Protocol):
    """What says how train.py is called for a point."""

    def flags(self, point: Point, seed: int) -> list[str]: ...


class Worker(threading.Thread):
    """Takes trials until there are none; `event` makes it stop, with all of its run saved."""

    def __init__(
        self, study: Study, base: Flags, workdir: Path, share: Share, event: threading.Event
    ):
        super().__init__()
        self.study, self.base, self.share, self.event = study, base, share, event
        self.workdir = workdir
        self.now: Run | None = None  # for whoever watches
        self.waits_for = ""  # the name of a run, before it is `now`
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            while not self.event.is_set():
                trial = self.study.take()
                if trial is not None:
                    self._try(trial)
                elif self.study.over():
                    return
                else:
                    self.event.wait(POLL)  # a trial elsewhere may still be freed
        except Exception as error:  # a thread's errors are nobody's, unless they are handed over
            self.error = error
            self.event.set()

    def _try(self, trial: Trial) -> None:
        facts = trial.user_attrs
        name = run_name(facts["key"], facts["point"])
        folder = self.workdir / "runs" / name / f"seed{facts['seed']}"
        folder.mkdir(parents=True, exist_ok=True)
        before = facts.get("seconds", 0.0)
        while in_use(folder):  # its last process may still be saving what it has
            self.waits_for = f"{name}/{folder.name}"
            if self.event.wait(POLL):
                return self.study.finish(trial, TrialState.FAIL, None, {})
            self.study.beat(trial, before)
        flags = self.base.flags(facts["point"], facts["seed"])
        with contextlib.closing(Run(folder, flags, self.share, self.study, before)) as run:
            self.now, self.waits_for = run, ""
            try:
                state = run.watch(trial, self.event)
                self.study.finish(trial, state, run.score(state), run.facts())
            except UpdateFinishedTrialError:
                pass  # it seemed dead, this machine asleep say, and is somebody else's by now
            finally:
                self.now = None


def in_use(folder: Path) -> bool:
    """Whether a process trains there."""
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def command(share: Share, flags: Sequence[str]) -> list[str]:
    """train.py on a worker's share."""
    cores, parent = ",".join(map(str, share.cores)), str(os.getpid())
    launch, train = str(ROOT / "sweeping" / "launch.py"), str(ROOT / "train.py")
    return [sys.executable, launch, parent, cores, train, *flags]


def environment(share: Share) -> dict[str, str]:
    # Unfiltered, a traceback ends in its error, and not in a note on how it was filtered.
    return {**os.environ, "JAX_TRACEBACK_FILTERING": "off", **share.environment}


class Run:
    """train.py at work on a trial; `before` are the seconds of earlier attempts."""

    def __init__(
        self, folder: Path, flags: Sequence[str], share: Share, study: Study, before: float
    ):
        self.folder, self.study = folder, study
        self.error = ""
        self.lines: list[dict[str, Any]] = []  # of log.jsonl
        self._read: tuple[int, int] | None = None
        self._began = time.monotonic() - before
        with (folder / "output.txt").open("ab") as output:
            self._said_before = output.tell()
            self.process = subprocess.Popen(
                command(share, [*flags, f"--workdir={folder.absolute()}"]),
                env=environment(share), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us to pass on
            )  # fmt: skip

    @property
    def name(self) -> str:
        return "/".join(self.folder.parts[-2:])

    @property
    def seconds(self) -> float:
        """Of this and of earlier attempts."""
        return time.monotonic() - self._began

    def watch(self, trial: Trial, event: threading.Event) -> TrialState:
        """Waits for the end, reports scores, prunes."""
        beaten, reported, pruned, asked = -math.inf, 0, False, False
        while self.process.poll() is None:
            if time.monotonic() - beaten >= self.study.settings.grace / 6:
                self.study.beat(trial, self.seconds)
                beaten = time.monotonic()
            self.read()
            for score in self.scores[reported:]:
                reported += 1
                if math.isfinite(score):
                    pruned = self.study.prunes(trial, score, reported) or pruned
            if (pruned or event.is_set()) and not asked:
                self.process.terminate()  # once: a second signal would not wait for the checkpoint
                asked = True
            time.sleep(POLL)
        self.read()
        return self._state(pruned, asked)

    def _state(self, pruned: bool, asked: bool) -> TrialState:
        code = self.process.returncode
        if code == 0 and any(map(math.isfinite, self.scores)):
            return TrialState.COMPLETE
        if pruned:
            return TrialState.PRUNED
        if not asked and code not in INTERRUPTED:
            said = self._last_words(code)
            # Another process was first, between our look at the lock and its taking: we wait.
            self.error = "" if " is in use by " in said else said
        return TrialState.FAIL  # without an error: interrupted

    def _last_words(self, code: int) -> str:
        if code == 0:
            return f"no evaluation gave a number for {self.study.settings.metric}"
        if code < 0:
            hint = "; was there too little memory?" if code == -signal.SIGKILL else ""
            return f"ended by {signal.Signals(-code).name}{hint}"
        with (self.folder / "output.txt").open("rb") as output:
            output.seek(self._said_before)
            lines = output.read().decode("utf-8", errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        return said[-1].removeprefix("error: ")[:500] if said else f"status {code}"

    def read(self) -> None:
        """log.jsonl anew, where it has changed: a resumed run drops lines of it."""
        path = self.folder / "log.jsonl"
        if not path.exists():
            return
        now = path.stat()
        if (now.st_mtime_ns, now.st_size) == self._read:
            return
        self._read = now.st_mtime_ns, now.st_size
        self.lines = []
        for line in path.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError):  # the last may be half there, in a letter even
                self.lines.append(json.loads(line))

    @property
    def scores(self) -> list[float]:
        """Of the evaluations so far; what is no number is NaN."""
        metric = self.study.settings.metric
        found = [line.get(metric) for line in self.lines if line["kind"] == "valid"]
        return [math.nan if score is None else score for score in found]

    def score(self, state: TrialState) -> float | None:
        """The best; of a pruned run Optuna keeps the last itself."""
        done = state == TrialState.COMPLETE
        return better(self.scores, self.study.lower_is_better) if done else None

    def facts(self) -> dict[str, Any]:
        """What a leaderboard tells of a run."""
        facts: dict[str, Any] = {"seconds": self.seconds}
        if self.error:
            facts["error"] = self.error
        for line in self.lines:
            if line["kind"] == "run":
                facts["parameters"] = line["parameters"]
            elif line["kind"] == "train":
                facts["count"], facts["step"] = line["count"], line["step"]
        return facts

    def progress(self) -> tuple[str, ...]:
        """Point, seed, step, last score, tokens a second and seconds, for a table."""
        speeds = [line["count_per_second"] for line in self.lines if line["kind"] == "train"]
        point, seed = self.folder.parts[-2:]
        return (
            point, seed.removeprefix("seed"), f"{self.facts().get('step', 0):,}",
            f"{self.scores[-1]:#.4g}" if self.scores else "–",
            f"{speeds[-1]:,.0f}" if speeds else "–", f"{self.seconds:.0f}",
        )  # fmt: skip

    def close(self) -> None:
        """Where an error of ours left it running: it may save what it has."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
