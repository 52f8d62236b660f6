"""The tiny run that the campaign damages: its files, its commands and their results.

A stage is a folder with a corpus, its cache, an interrupted run, the other run from whose
parameters it was started (train.init_from), and the user's home folder. The programs are started in
this folder, so that all paths in the run are relative, and a copy of the stage is independent of
the original.
"""

import dataclasses
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults.outcome import (
    WARNING,
    Outcome,
    classify,
    eval_result,
    export_result,
    train_result,
)
from faults.processes import ROOT, Ended, Process, isolated

LIMIT = 120.0  # seconds until a program counts as hanging; on an idle core it needs four
FIRST_EVALUATION, LAST_STEP = 2, 6
CONFIG = [
    f"--config={ROOT}/configs/luong2015.py:score=dot,data=text,feed=no,reverse=no",
    "--config.data.buckets=1",
    "--config.data.batch_size=8", "--config.data.source_vocab.tokenizer=characters",
    "--config.data.target_vocab.tokenizer=characters", "--config.model.encoder.cell=gru",
    "--config.model.encoder.features=8", "--config.model.encoder.embedding=4",
    "--config.model.decoder.cell=gru", "--config.model.decoder.features=8",
    "--config.model.decoder.embedding=4", "--config.model.dropout=0.2",
    f"--config.train.eval_every={FIRST_EVALUATION}", "--config.train.keep=3",
    "--config.train.samples=0", "--config.optimizer.warmup_steps=0",
    "--config.optimizer.name=momentum", "--config.optimizer.learning_rate=0.1",
]  # fmt: skip
OTHER_CONFIG = [
    *CONFIG, "--config.data.dir=other_corpus", "--config.data.cache=other_cache",
    "--config.train.steps=4",
]  # fmt: skip
# The run keeps the vocabularies of the other run and adds the letters that these do not have.
NEW_CONFIG = [
    *CONFIG, "--config.data.dir=corpus", "--config.data.cache=cache",
    "--config.data.vocabularies=extend", f"--config.train.steps={LAST_STEP}",
]  # fmt: skip
RUN_CONFIG = [*NEW_CONFIG, "--config.train.init_from=other_run"]
SWEEP = '''"""A sweep with two points."""


def points():
    yield {"optimizer.learning_rate": 0.01}
    yield {"optimizer.learning_rate": 0.02}
'''


@dataclasses.dataclass
class Command:
    """A command, and a function that returns its result in a stage after it has ended."""

    program: str
    flags: list[str]
    result: Callable[[Path, Ended], Any]
    stdin: str = "/dev/null"
    may_differ: bool = False  # whether a different result with a warning is acceptable

    def start(self, stage: Path, before: Callable[[], object] | None = None) -> Process:
        """Start the command in a stage."""
        return Process(stage, self.program, self.flags, self.stdin, before)

    def run(self, stage: Path, before: Callable[[], object] | None = None) -> Ended:
        """Run the command in a stage until its end."""
        return self.start(stage, before).end(LIMIT)

    def outcome(
        self,
        group: str,
        case: str,
        stage: Path,
        expected: Any,
        ended: Ended,
        after: str = "",
        repaired: bool = False,
    ) -> Outcome:
        """Classify the end of the command; `after` describes why it was run."""
        found = isolated(lambda: self.result(stage, ended))
        name = self.program + (f" {after}" if after else "")
        kind, detail = classify(ended, found, expected, self.may_differ)
        return Outcome(group, case, name, kind, detail, repaired)


def resume_command(workdir: str = "run") -> Command:
    """Return the command of starting or resuming the run."""
    return Command(
        "train.py", [*RUN_CONFIG, f"--workdir={workdir}"],
        lambda stage, _: train_result(stage / workdir, LAST_STEP),
    )  # fmt: skip


def start_command(other: str = "other_run") -> Command:
    """Return the command of starting a new run from the parameters of another run.

    Its result is that of the resumed run.
    """
    return Command(
        "train.py", [*NEW_CONFIG, f"--init_from={other}", "--workdir=new"],
        lambda stage, _: train_result(stage / "new", LAST_STEP), may_differ=True,
    )  # fmt: skip


def eval_command(workdir: str = "run") -> Command:
    """Return the command of scoring the run, compared with its earlier report."""
    flags = [f"--workdir={workdir}", "--out=report", "--pictures=0", "--noreport"]
    return Command(
        "eval.py", [*flags, f"--against={workdir}"],
        lambda stage, _: eval_result(stage / "report"), may_differ=True,
    )  # fmt: skip


def translate_command(workdir: str = "run") -> Command:
    """Return the command of translating the test split."""
    return Command(
        "predict.py", [f"--workdir={workdir}"], lambda _, ended: ended.stdout,
        "corpus/test.en", may_differ=True,
    )  # fmt: skip


def export_command(workdir: str = "run") -> Command:
    """Return the command of exporting the run."""
    return Command(
        "export.py", [f"--workdir={workdir}", "--format=safetensors", "--out=export"],
        lambda stage, _: export_result(stage / "export"), may_differ=True,
    )  # fmt: skip


def sweep_command() -> Command:
    """Return the command of running a sweep of two points."""
    flags = [*RUN_CONFIG, "--sweep=sweep_points.py", "--workdir=sweep", "--grace=2"]

    def result(stage: Path, _: Ended) -> Any:
        runs = sorted(path.parent for path in (stage / "sweep").rglob("config.json"))
        return [train_result(run, LAST_STEP) for run in runs], len(runs)

    return Command("sweep.py", flags, result)


class Original:
    """The undamaged stage, and the expected results and durations of the commands."""

    def __init__(self, folder: Path):
        """Train, evaluate and interrupt the tiny run in `folder`."""
        self.stage, self.folder = folder / "original", folder
        self.expected: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        _write_corpora(self.stage)
        self._train_other()
        self._train_run()
        commands = (resume_command(), eval_command(), translate_command(), export_command())
        self.measure(*commands)

    def _train_other(self) -> None:
        """Train the other run, and delete its corpus, which no program needs again."""
        self._succeed(Command("train.py", [*OTHER_CONFIG, "--workdir=other_run"], lambda *_: None))
        for name in ("other_corpus", "other_cache"):
            shutil.rmtree(self.stage / name)

    def _train_run(self) -> None:
        """Leave the state of a run that was killed after its first evaluation.

        It has the checkpoint of step 0, which is copied before the running program deletes it, and
        a report of eval.py.
        """
        checkpoints, kept = self.stage / "run/checkpoints", self.stage / "kept"
        process = resume_command().start(self.stage)
        process.wait(lambda: (checkpoints / "0").is_dir(), LIMIT)
        process.send(signal.SIGSTOP)
        shutil.copytree(checkpoints / "0", kept)
        process.send(signal.SIGCONT)
        ended = process.end(LIMIT)
        assert ended.status == 0, ended.stderr
        self._succeed(Command("eval.py", ["--workdir=run", "--pictures=0"], lambda *_: None))
        for path in checkpoints.iterdir():
            if path.name != str(FIRST_EVALUATION):
                shutil.rmtree(path)
        kept.rename(checkpoints / "0")
        status = f'{{"step": {FIRST_EVALUATION}, "done": false}}\n'
        (self.stage / "run/status.json").write_text(status)

    def measure(self, *commands: Command) -> None:
        """Record the durations and the results of commands, each in a copy of the stage."""
        stages = [self.copy(f"undamaged-{command.program}") for command in commands]
        processes = [command.start(stage) for command, stage in zip(commands, stages, strict=True)]
        for command, stage, process in zip(commands, stages, processes, strict=True):
            process.wait(seconds=LIMIT)
            self.seconds[command.program] = time.monotonic() - process.began
            ended = process.end()
            assert ended.status == 0 and not WARNING.search(ended.stderr), ended.stderr
            self.expected[command.program] = isolated(
                lambda command=command, stage=stage, ended=ended: command.result(stage, ended)
            )

    def _succeed(self, command: Command) -> None:
        ended = command.run(self.stage)
        assert ended.status == 0, ended.stderr

    def copy(self, name: str, *without: str) -> Path:
        """Return a copy of the stage, without the given folders."""
        stage = self.folder / name / "stage"
        shutil.copytree(self.stage, stage, symlinks=True)
        for folder in without:
            shutil.rmtree(stage / folder)
        return stage

    def files(self, *folders: str) -> list[str]:
        """Return the names of all files in folders of the stage."""
        found = [path for name in folders for path in (self.stage / name).rglob("*")]
        return sorted(str(path.relative_to(self.stage)) for path in found if path.is_file())


def _write_corpora(stage: Path) -> None:
    """Write the corpora of both runs: that of the other run has fewer letters."""
    (stage / "home").mkdir(parents=True)
    (stage / "sweep_points.py").write_text(SWEEP)
    _write_corpus(stage / "other_corpus", "abc")
    _write_corpus(stage / "corpus", "abcd")


def _write_corpus(folder: Path, letters: str) -> None:
    """Write words of letters and, as their translation, the reversed words in capitals."""
    folder.mkdir()
    rng = random.Random(0)
    for split, count in (("train", 24), ("valid", 4), ("test", 4)):
        words = ["".join(rng.choices(letters, k=rng.randint(3, 6))) for _ in range(count)]
        (folder / f"{split}.en").write_text("".join(f"{x}\n" for x in words))
        (folder / f"{split}.de").write_text("".join(f"{x[::-1].upper()}\n" for x in words))
