"""Check command lines by running the programs until their actual work would begin.

Read a JSON list of {"folder": working directory, "words": program or module and its arguments} from
standard input. Write a JSON list with one answer per command: "" if the program accepts it, else
its error message. Each command runs in a fork of this process, because the programs define flags
with the same names, and because imports take most of the time. The functions that begin the work
(training, scoring, decoding, a sweep's study, the preparation of a corpus) are replaced: the
command is accepted when the program calls one of them.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
import types
import warnings
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parent.parent
PROGRAMS = (
    "train.py", "eval.py", "predict.py", "lab.py", "sweep.py", "reproduce.py", "export.py",
    "compare.py",
)  # fmt: skip
SECONDS = 60


def accept(*_: Any, **__: Any) -> NoReturn:
    sys.stdout.flush()
    os._exit(0)


def replace_work(program: str) -> None:
    """Replace the functions that begin the work with functions that accept the command."""
    import evaluation.results
    import sweeping.estimate
    import sweeping.study
    import training.workdir
    from configs.load import load_config_file

    load_config = training.workdir.load_config

    def load(workdir: Path, **_: Any) -> Any:
        """Return the config that an earlier command wrote to `workdir`, else the demo's config."""
        if (workdir / "config.json").exists():
            return load_config(workdir)
        return load_config_file("configs/luong2015.py", "data=dates")

    def train_run(config: Any, workdir: Path, *_: Any, **__: Any) -> NoReturn:
        if not workdir.is_absolute():
            workdir.mkdir(parents=True, exist_ok=True)
            (workdir / "config.json").write_text(config.to_json(), "utf-8")
        accept()

    def make_mesh(*_: Any, **__: Any) -> None:
        if program == "predict.py":  # all flags were checked before this call
            accept()

    def folders(text: str, *_: str) -> list[Path]:
        return [Path(name) for name in text.split(",") if name]

    modules = {
        "experiment": {
            "train_run": train_run,
            "score_run": accept,
            "score_eval_sets": accept,
            "summarize_run": accept,
        },
        "exporting.run": {"export_run": accept},
        "comparing.page": {"write_comparison": accept},
        "comparing.runs": {"parse_runs": folders},
        "training.finding": {"find_workdirs": folders},
        "serving.runs": {"load_runs": accept},
        "training.devices": {"make_mesh": make_mesh, "divide_cpu": lambda _: None},
        "training.hosts": {"connect": lambda *_, **__: None, "is_first_process": lambda: True},
        "decoding.translator": {"Translator": None},
        "papers.page": {"write_page": None},
        "papers.scoring": {"read_reports": None, "score_plan": accept},
        "tasks.registry": {"make_task": accept},
        "training.initialization": {"initial_vocabularies": accept},
    }
    for name, content in modules.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)
    for module, name, value in (
        (training.workdir, "load_config", load),
        (evaluation.results, "report_folder", lambda other, *_: other),
        (sweeping.estimate, "estimate", accept),
        (sweeping.study, "Study", accept),
    ):
        assert hasattr(module, name)
        setattr(module, name, value)


def run_program(words: list[str]) -> None:
    replace_work(words[0])
    sys.argv = words
    runpy.run_path(str(ROOT / words[0]), run_name="__main__")


def run_module(words: list[str]) -> None:
    """Parse the flags of a module; a module that defines no flags takes no arguments."""
    spec = importlib.util.find_spec(words[0])
    assert spec and spec.origin, f"there is no module {words[0]}"
    source = Path(spec.origin).read_text("utf-8")
    main = source.partition('if __name__ == "__main__":')[2]
    assert main, f"{words[0]} cannot be run"
    if "run(" not in main:
        assert len(words) == 1, f"{words[0]} takes no arguments"
        return
    import absl.app
    from absl import flags

    import program

    def parse(*_: Any, **__: Any) -> NoReturn:
        rest = flags.FLAGS(sys.argv)
        assert len(rest) == 1, f"unexpected argument {rest[1]!r}"
        accept()

    absl.app.run = program.run = parse
    sys.argv = words
    runpy.run_module(words[0], run_name="__main__")


def answer(folder: str, words: list[str]) -> str:
    """Run a command in a fork; return "" if it is accepted, else its output."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if not child:
            _run(folder, words, output.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        text = output.read().decode("utf-8", "replace").strip()
    # absl prints help with exit status 1, so a command that asks for help is valid.
    asked = {"--help", "--helpfull", "--helpshort"} & {*words}
    return "" if status == 0 or asked else text[-2000:] or f"exit status {status}"


def _run(folder: str, words: list[str], output: int) -> NoReturn:
    try:
        signal.alarm(SECONDS)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(folder)
        run_program(words) if words[0] in PROGRAMS else run_module(words)
        accept()
    except SystemExit as stop:
        sys.stdout.flush()
        os._exit(stop.code if isinstance(stop.code, int) else int(bool(stop.code)))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def main() -> None:
    sys.path.insert(0, str(ROOT))
    commands = json.load(sys.stdin)
    for name in ("program", "sweeping.study", "sweeping.estimate", "papers.plan", "papers.registry",
                 "training.workdir", "evaluation.results", "link_flags", "data.eval_sets",
                 "exporting.formats"):  # fmt: skip
        importlib.import_module(name)
    importlib.import_module("papers.registry").find_targets()
    gc.freeze()  # otherwise, garbage collections of forks copy the memory of all modules
    answers = [answer(**c) if c["words"][0] in PROGRAMS else "" for c in commands]
    # Import JAX and most of the project once for all "python -m MODULE" commands. The programs
    # (train.py, eval.py, ...) were checked above, because they must parse flags without JAX.
    modules = {tuple(c["words"]): "" for c in commands if c["words"][0] not in PROGRAMS}
    if modules:
        for name in ("experiment", "matplotlib.pyplot", "benchmarks"):
            importlib.import_module(name)
        # os.fork warns about the threads of JAX, but forking is safe before any computation.
        warnings.filterwarnings("ignore", "os.fork")
        gc.freeze()
        modules = {words: answer(str(ROOT), list(words)) for words in modules}
    pairs = zip(commands, answers, strict=True)
    json.dump([modules.get(tuple(c["words"]), a) for c, a in pairs], sys.stdout)


if __name__ == "__main__":
    main()
