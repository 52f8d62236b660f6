"""Workers take trials and run train.py for each, a process of its own: no trial can bring down the
sweep, and each leaves an ordinary workdir.

The scores that train.py writes to its log.jsonl are what trials are pruned by.
"""

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
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from sweeping.devices import Share
from sweeping.points import Base, label
from sweeping.study import Study, better

POLL = 0.5  # seconds between two looks at a run
ROOT = Path(__file__).parent.parent


class Worker(threading.Thread):
    """Takes trials until there are none; `event` makes it stop, with all of its run saved."""

    def __init__(
        self, study: Study, base: Base, workdir: Path, share: Share, event: threading.Event
    ):
        super().__init__()
        self.study, self.base, self.share, self.event = study, base, share, event
        self.workdir = workdir
        self.run_now: Run | None = None  # for whoever watches
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
        folder = self.workdir / "runs" / run_name(facts["key"], facts["point"], facts["seed"])
        run = Run(folder, self.base.flags(facts["point"], facts["seed"]), self.share, self.study)
        self.run_now = run
        try:
            state = run.watch(trial, self.event)
            self.study.finish(trial, state, run.score(state), run.facts())
        except UpdateFinishedTrialError:
            pass  # it seemed dead, this machine asleep say, and is somebody else's by now
        finally:
            run.kill()
            self.run_now = None


def run_name(key: str, point: dict[str, Any], seed: int) -> str:
    name = label(point) if key == label(point) else f"{key},{label(point)}"
    return f"{name}/seed{seed}"


def command(share: Share, flags: Sequence[str]) -> list[str]:
    """train.py on a worker's share."""
    cores = ",".join(map(str, share.cores))
    return [sys.executable, "sweeping/launch.py", cores, "train.py", *flags]


class Run:
    """train.py at work on a trial."""

    def __init__(self, folder: Path, flags: Sequence[str], share: Share, study: Study):
        self.folder, self.study = folder, study
        self.error = ""
        self.lines: list[dict[str, Any]] = []  # of log.jsonl
        self._read, self._began, self._before = 0.0, time.monotonic(), 0.0
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "output.txt").open("a") as output:
            self.process = subprocess.Popen(
                command(share, [*flags, f"--workdir={folder.absolute()}"]),
                cwd=ROOT, env=os.environ | share.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us to pass on
            )  # fmt: skip

    @property
    def seconds(self) -> float:
        """Of this and of earlier attempts."""
        return self._before + time.monotonic() - self._began

    def watch(self, trial: Trial, event: threading.Event) -> TrialState:
        """Waits for the end, reports scores, prunes."""
        self._before, beaten, pruned = trial.user_attrs.get("seconds", 0.0), -math.inf, False
        reported, asked = 0, False
        while self.process.poll() is None:
            if time.monotonic() - beaten >= self.study.settings.grace / 6:
                self.study.beat(trial, self.seconds)
                beaten = time.monotonic()
            self.read()
            for score in self.scores[reported:]:
                reported += 1
                if math.isfinite(score):
                    trial.report(score, reported)
                    pruned = pruned or trial.should_prune()
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
        if asked or code in (128 + signal.SIGINT, 128 + signal.SIGTERM):
            return TrialState.FAIL  # without an error: interrupted
        self.error = self._last_words(code)
        return TrialState.FAIL

    def _last_words(self, code: int) -> str:
        if code == 0:
            return f"no evaluation gave a number for {self.study.settings.metric}"
        if code == -signal.SIGKILL:
            return "killed from outside; was there too little memory?"
        text = (self.folder / "output.txt").read_text("utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = lines[-1].removeprefix("error: ") if lines else f"status {code}"
        return last[:500]

    def read(self) -> None:
        """log.jsonl anew, where it has changed: a resumed run drops lines of it."""
        path = self.folder / "log.jsonl"
        changed = path.stat().st_mtime if path.exists() else self._read
        if changed == self._read:
            return
        self._read = changed
        whole = path.read_text("utf-8").split("\n")[:-1]  # the last line may be half there
        self.lines = [json.loads(line) for line in whole if line]

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
        facts = self.facts()
        speeds = [line["count_per_second"] for line in self.lines if line["kind"] == "train"]
        point, seed = self.folder.parts[-2:]
        return (
            point, seed.removeprefix("seed"), f"{facts.get('step', 0):,}",
            f"{self.scores[-1]:#.4g}" if self.scores else "–",
            f"{speeds[-1]:,.0f}" if speeds else "–", f"{self.seconds:.0f}",
        )  # fmt: skip

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
