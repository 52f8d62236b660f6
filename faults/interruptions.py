"""Cases with killed programs, full disks and lost peers."""

import ctypes
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from faults.cases import Case
from faults.outcome import Outcome
from faults.processes import Process, isolated
from faults.tiny import LIMIT, Command, Original, eval_command, resume_command, sweep_command

# Number of kills, per moment: training from the start, a resumed run, a checkpoint that is being
# written, a corpus that is being prepared, an evaluation, and a sweep.
KILLS = {"start": 12, "resume": 8, "checkpoint": 8, "preparation": 8, "evaluation": 8, "sweep": 6}
_CLONE_NEWNS = 0x20000  # flag of unshare(2): a mount namespace that ends with the process
PEER_LIMIT = 400.0  # seconds until a process whose peer is lost counts as hanging


def kill_cases(original: Original) -> Iterator[Case]:
    """Yield programs that are killed at random moments and then started again."""
    for moment, count in KILLS.items():
        for number in range(count):
            yield _killed(moment, number)


def _killed(moment: str, number: int) -> Case:
    commands = {"evaluation": eval_command, "sweep": sweep_command}
    command = commands.get(moment, resume_command)()
    group, case = "kills", f"{moment} {number}"

    def play(original: Original, copy: str) -> list[Outcome]:
        rng, without = random.Random(case), ["run"] if moment in ("start", "checkpoint") else []
        if moment == "preparation":
            without = ["run", "cache"]
        for attempt in range(20):
            stage = original.copy(f"{copy}/{attempt}", *without)
            process = command.start(stage)
            delay = rng.uniform(0, original.seconds[command.program] * 0.9**attempt)
            if ready := _READY.get(moment):
                process.wait(lambda ready=ready, stage=stage: ready(stage))
                delay = rng.uniform(0, 0.03)
            if process.wait(seconds=delay):
                continue  # the program ended before it could be killed
            process.send(signal.SIGKILL)
            process.wait()
            ended = command.run(stage)
            process.end()
            expected = original.expected[command.program]
            return [
                command.outcome(group, case, stage, expected, ended, "after SIGKILL", repaired=True)
            ]
        raise RuntimeError(f"{case}: the program always ended before it could be killed")

    return Case(group, case, play)


# Conditions after which a kill is aimed at the next 30 ms.
_READY: dict[str, Callable[[Path], bool]] = {
    "checkpoint": lambda stage: any((stage / "run/checkpoints").glob("*tmp*")),
    "preparation": lambda stage: any((stage / "cache").glob("*/*")),
}


def disk_cases(original: Original) -> Iterator[Case]:
    """Yield programs whose disk is full after some KiB, and that run again with enough space."""
    for free in (0, 4, 8, 16, 32, 64, 96, 128, 192, 256):
        for command, without in (
            (resume_command(), ()), (resume_command(), ("run", "cache")), (eval_command(), ())
        ):  # fmt: skip
            yield _full(free, command, without)
    for free in (4, 64, 128, 256):
        yield _full(free, sweep_command(), ())


def _full(free: int, command: Command, without: tuple[str, ...]) -> Case:
    kind = "from the start" if without else "again" if command.program == "train.py" else ""
    group, case = "full disk", f"{free} KiB free, {command.program} {kind}".rstrip()

    def play(original: Original, copy: str) -> list[Outcome]:
        stage, expected = original.folder / copy / "stage", original.expected[command.program]
        stage.mkdir(parents=True)
        disk = _small_disk(stage)
        shutil.copytree(original.stage, stage, symlinks=True, dirs_exist_ok=True)
        for name in without:
            shutil.rmtree(stage / name)
        if disk:
            status = os.statvfs(stage)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize // 1024
            _mount(stage, f"remount,size={used + free}k")
            ended = command.run(stage)
            _mount(stage, "remount,size=64m")
        else:
            ended = command.run(stage, lambda: _limit_files(free * 1024))
        outcomes = [command.outcome(group, case, stage, expected, ended)]
        if ended.status:
            ended = command.run(stage)
            outcomes.append(
                command.outcome(
                    group, case, stage, expected, ended, "with more space", repaired=True
                )
            )
        return outcomes

    return Case(group, case, play)


def _small_disk(folder: Path) -> bool:
    """Mount a disk in memory, which only this process and its children see."""
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS):
        return False  # only root may mount disks
    private = ["mount", "--make-rprivate", "/"]
    done = subprocess.run(private, capture_output=True).returncode == 0
    return done and _mount(folder, "size=64m")


def _mount(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


def _limit_files(size: int) -> None:
    """Let every write fail that makes a file larger than `size` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def peer_cases(original: Original) -> Iterator[Case]:
    """Yield runs of two processes, one of which is killed or frozen at a random moment."""
    for fault, moments in ((signal.SIGKILL, (0.1, 0.5, 0.8, 0.9)), (signal.SIGSTOP, (0.1, 0.8))):
        for lost in (0, 1):
            for moment in moments:
                yield _lost(fault, lost, moment)


def _lost(fault: signal.Signals, lost: int, moment: float) -> Case:
    group, case = "peers", f"{fault.name} of process {lost} after {moment:.0%} of the run"
    command = resume_command("two")

    def play(original: Original, copy: str) -> list[Outcome]:
        stage, expected = original.copy(copy), original.expected["peers"]
        processes = start_peers(stage)
        delay = original.seconds["peers"] * moment
        if not processes[lost].wait(seconds=delay):
            processes[lost].send(fault)
        survivor = processes[1 - lost].end(PEER_LIMIT)
        processes[lost].end()
        outcomes = [command.outcome(group, case, stage, expected, survivor, "of the other process")]
        first, _ = [process.end(LIMIT) for process in start_peers(stage)]
        again = command.outcome(group, case, stage, expected, first, "again", repaired=True)
        return [*outcomes, again]

    return Case(group, case, play, idle=True)


def start_peers(stage: Path) -> list[Process]:
    """Start a run of two processes."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    command = resume_command("two")
    hosts = [f"--coordinator=localhost:{port}", "--processes=2"]
    return [
        Process(stage, "train.py", [*command.flags, *hosts, f"--process={i}"]) for i in range(2)
    ]


def measure_peers(original: Original) -> None:
    """Record the duration and the result of an undisturbed run of two processes."""
    stage, began, command = (
        original.copy("undamaged-peers"),
        time.monotonic(),
        resume_command("two"),
    )
    ends = [process.end(LIMIT) for process in start_peers(stage)]
    original.seconds["peers"] = time.monotonic() - began
    assert all(ended.status == 0 for ended in ends), ends
    original.expected["peers"] = isolated(lambda: command.result(stage, ends[0]))
