"""Cases with damaged, unreadable or read-only files, and with unusual paths."""

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from faults.damage import DAMAGES, Damage, json_damages
from faults.outcome import Outcome
from faults.tiny import (
    Command,
    Original,
    eval_command,
    export_command,
    resume_command,
    start_command,
    translate_command,
)
from training.vocabularies import INITIAL


class Case(NamedTuple):
    """A fault and the function that plays it in a copy of the original stage."""

    group: str
    name: str
    play: Callable[[Original, str], list[Outcome]]  # called with the name of the copy
    idle: bool = False  # whether the case mostly waits, so that other cases can run beside it


COMMANDS = (resume_command, eval_command, translate_command)
# The folders of the stage whose files are damaged, and the programs that may read them.
FOLDERS: dict[str, tuple[Callable[[], Command], ...]] = {
    "run": (*COMMANDS, export_command),
    "other_run": (start_command,),
    "cache": COMMANDS,
}


def damage_cases(original: Original) -> Iterator[Case]:
    """Yield every file of the runs and of the cache, damaged in every way, for every program."""
    for folder in FOLDERS:
        for file in original.files(folder):
            for name, damage in DAMAGES.items():
                yield from _damaged(folder, "damaged files", file, name, damage)


def json_cases(original: Original) -> Iterator[Case]:
    """Yield wrong types in every JSON file of the runs and of the cache, for every program."""
    for folder in FOLDERS:
        for file in original.files(folder):
            for name, damage in json_damages(original.stage / file):
                yield from _damaged(folder, "wrong JSON types", file, name, damage)


def _damaged(folder: str, kind: str, file: str, name: str, damage: Damage) -> Iterator[Case]:
    group = f"{folder.replace('_', ' ')}: {kind}"
    # A damaged copy of a file of the other run can be replaced only while that run exists.
    copied = f"/{INITIAL}/" in file
    for make_command in FOLDERS[folder]:
        for without in ((), ("other_run",)) if copied else ((),):
            case = f"{file}: {name}" + (" without the other run" if without else "")
            yield _damaged_case(group, case, file, damage, make_command(), without)


def _damaged_case(
    group: str, case: str, file: str, damage: Damage, command: Command, without: tuple[str, ...]
) -> Case:
    def play(original: Original, copy: str) -> list[Outcome]:
        stage = original.copy(copy, *without)
        damage(stage / file)
        expected = original.expected[command.program]
        return [command.outcome(group, case, stage, expected, command.run(stage))]

    return Case(group, f"{case}, {command.program}", play)


def permission_cases(original: Original) -> Iterator[Case]:
    """Yield unreadable files and folders, and read-only folders, for every program."""
    for top, commands in FOLDERS.items():
        for name, mode in _changes(original, top):
            for make_command in commands:
                yield _forbidden(name, mode, make_command())


def _changes(original: Original, top: str) -> list[tuple[str, int]]:
    """Return files and folders with the modes that they get, without Orbax's arrays."""
    changes = [(name, 0) for name in original.files(top) if "/d/" not in name]
    path = original.stage / top
    for folder in (path, *(inner for inner in path.rglob("*") if inner.is_dir())):
        if folder.name != "d" and not folder.name.startswith("ocdbt"):
            changes += [(str(folder.relative_to(original.stage)), mode) for mode in (0, 0o500)]
    return changes


def _forbidden(name: str, mode: int, command: Command) -> Case:
    group, case = "permissions", f"{name}: mode {mode:03o}"

    def play(original: Original, copy: str) -> list[Outcome]:
        stage = original.copy(copy)
        path, expected = stage / name, original.expected[command.program]
        before = path.stat().st_mode
        path.chmod(mode)
        ended = command.run(stage, drop_privileges)
        if path.exists():  # train.py deletes the oldest checkpoints
            path.chmod(before)
        outcomes = [command.outcome(group, case, stage, expected, ended)]
        if command.program == "train.py" and ended.status:
            ended = command.run(stage, drop_privileges)
            case_after = "with restored permissions"
            outcomes.append(
                command.outcome(group, case, stage, expected, ended, case_after, repaired=True)
            )
        return outcomes

    return Case(group, f"{case}, {command.program}", play)


def drop_privileges() -> None:
    """Give up all capabilities of this process: permissions then also apply to root."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3 of the interface, this process
    ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())


# Names of workdirs: patterns of the shell and of Orbax, too long, not a folder, a link loop, and
# one that looks like a checkpoint of --init_from.
PATHS = (
    "r[1]", "r[!a]", "r\\1", "r?", "r*", "r{a}", "r%41", "r#1", "r 1", "r\n1", "rü", "x" * 300,
    "loop", "/proc/run", "/dev/null/run", "corpus/test.en", "r@last",
)  # fmt: skip


def path_cases(original: Original) -> Iterator[Case]:
    """Yield unusual names of the workdir and of the other run, which are copied there."""
    for name in PATHS:
        for make_command in COMMANDS:
            yield _moved("run", name, make_command(name))
        yield _moved("other_run", name, start_command(name))


def _moved(folder: str, name: str, command: Command) -> Case:
    group, case = "unusual paths", f"{folder} in {name!r}"

    def play(original: Original, copy: str) -> list[Outcome]:
        stage = original.copy(copy)
        if name == "loop":
            os.symlink("loop", stage / name)
        elif not name.startswith("/") and len(name) < 256 and not Path(stage / name).exists():
            shutil.copytree(stage / folder, stage / name)
        expected = original.expected[command.program]
        return [command.outcome(group, case, stage, expected, command.run(stage))]

    return Case(group, f"{case}, {command.program}", play)
