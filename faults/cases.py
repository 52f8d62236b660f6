"""Cases with damaged, unreadable or read-only files, and with unusual paths."""

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from faults.damage import DAMAGES, Damage, json_damages
from faults.outcome import Outcome
from faults.tiny import Original, Task, eval_task, train_task, translate_task


class Case(NamedTuple):
    """A fault and the function that plays it in a copy of the original stage."""

    group: str
    name: str
    play: Callable[[Original, str], list[Outcome]]  # called with the name of the copy
    idle: bool = False  # whether the case mostly waits, so that other cases can run beside it


TASKS = (train_task, eval_task, translate_task)


def damage_cases(original: Original) -> Iterator[Case]:
    """Yield every file of the run and of the cache, damaged in every way, for every program."""
    for folder in ("run", "cache"):
        for file in original.files(folder):
            for name, damage in DAMAGES.items():
                yield from _damaged(f"{folder}: damaged files", file, name, damage)


def json_cases(original: Original) -> Iterator[Case]:
    """Yield wrong types in every JSON file of the run and of the cache, for every program."""
    for folder in ("run", "cache"):
        for file in original.files(folder):
            for name, damage in json_damages(original.stage / file):
                yield from _damaged(f"{folder}: wrong JSON types", file, name, damage)


def _damaged(group: str, file: str, name: str, damage: Damage) -> Iterator[Case]:
    for make_task in TASKS:
        task, case = make_task(), f"{file}: {name}"

        def play(original: Original, copy: str, task: Task = task, case: str = case):
            stage = original.copy(copy)
            damage(stage / file)
            expected = original.expected[task.program]
            return [task.outcome(group, case, stage, expected, task.run(stage))]

        yield Case(group, f"{case}, {task.program}", play)


def permission_cases(original: Original) -> Iterator[Case]:
    """Yield unreadable files and folders, and read-only folders, for every program."""
    changes = [(name, 0) for name in original.files("run", "cache") if "/d/" not in name]
    paths = [original.stage / name for name in ("run", "cache")]
    folders = [*paths, *(path for top in paths for path in top.rglob("*") if path.is_dir())]
    for folder in folders:
        if folder.name != "d" and not folder.name.startswith("ocdbt"):
            changes += [(str(folder.relative_to(original.stage)), mode) for mode in (0, 0o500)]
    for name, mode in changes:
        for make_task in TASKS:
            yield _forbidden(name, mode, make_task())


def _forbidden(name: str, mode: int, task: Task) -> Case:
    group, case = "permissions", f"{name}: mode {mode:03o}"

    def play(original: Original, copy: str) -> list[Outcome]:
        stage = original.copy(copy)
        path, expected = stage / name, original.expected[task.program]
        before = path.stat().st_mode
        path.chmod(mode)
        ended = task.run(stage, drop_privileges)
        path.chmod(before)
        outcomes = [task.outcome(group, case, stage, expected, ended)]
        if task.program == "train.py" and ended.status:
            ended = task.run(stage, drop_privileges)
            case_after = "with restored permissions"
            outcomes.append(task.outcome(group, case, stage, expected, ended, case_after))
        return outcomes

    return Case(group, f"{case}, {task.program}", play)


def drop_privileges() -> None:
    """Give up all capabilities of this process: permissions then also apply to root."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the interface, this process
    ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())


# Names of workdirs: patterns of the shell and of Orbax, too long, not a folder, and a link loop.
PATHS = (
    "r[1]", "r[!a]", "r\\1", "r?", "r*", "r{a}", "r%41", "r#1", "r 1", "r\n1", "rü", "x" * 300,
    "loop", "/proc/run", "/dev/null/run", "corpus/test.en",
)  # fmt: skip


def path_cases(original: Original) -> Iterator[Case]:
    """Yield unusual names of the workdir, for every program; the run is copied there."""
    for name in PATHS:
        for make_task in TASKS:
            yield _moved(name, make_task(name))


def _moved(name: str, task: Task) -> Case:
    group, case = "unusual paths", repr(name)

    def play(original: Original, copy: str) -> list[Outcome]:
        stage = original.copy(copy)
        if name == "loop":
            os.symlink("loop", stage / name)
        elif not name.startswith("/") and len(name) < 256 and not Path(stage / name).exists():
            shutil.copytree(stage / "run", stage / name)
        expected = original.expected[task.program]
        return [task.outcome(group, case, stage, expected, task.run(stage))]

    return Case(group, f"{case}, {task.program}", play)
