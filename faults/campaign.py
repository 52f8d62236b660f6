"""Damage, kill and starve the programs in every way that cases.py and interruptions.py list.

    python -m faults.campaign

prints one table: the number of cases with the same result as an undamaged run, a clear message, a
traceback, a silent difference or a hang. The exit status is 1 if a case has one of the last three
outcomes, or if a program that runs again without the fault does not have the same result.
docs/durability.md describes the cases.
"""

import json
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from absl import app, flags
from tqdm import tqdm

from faults.cases import Case, damage_cases, json_cases, path_cases, permission_cases
from faults.interruptions import disk_cases, kill_cases, measure_peers, peer_cases
from faults.outcome import TRACEBACK, Outcome, outcome_table
from faults.processes import warm_up
from faults.tiny import Original, sweep_command

GROUPS: dict[str, Callable[[Original], Iterator[Case]]] = {
    "damage": damage_cases, "json": json_cases, "permissions": permission_cases,
    "paths": path_cases, "kills": kill_cases, "disk": disk_cases, "peers": peer_cases,
}  # fmt: skip
_ONLY = flags.DEFINE_list("only", [*GROUPS], f"Groups of cases: {', '.join(GROUPS)}.")
_MATCH = flags.DEFINE_string("match", "", "Run only the cases whose name contains this text.")
_SAMPLE = flags.DEFINE_integer(
    "sample", 0, "Number of randomly chosen cases; 0: all cases.", lower_bound=0
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of --sample.")
_JOBS = flags.DEFINE_integer(
    "jobs", os.cpu_count() or 1, "Number of cases in parallel.", lower_bound=1
)
_OUT = flags.DEFINE_string("out", "runs/faults", "Folder of table.md and outcomes.json.")
_IDLE = 4  # number of waiting cases that run beside the others


def main(argv: list[str]) -> None:
    """Run the chosen cases, and write the table and the outcomes."""
    chosen = Chosen(
        _ONLY.value, _MATCH.value, _SAMPLE.value, _SEED.value, _JOBS.value, _OUT.value
    )  # fmt: skip
    if unknown := {*chosen.only} - {*GROUPS}:
        sys.exit(f"error: --only has no group {min(unknown)!r}: use {', '.join(GROUPS)}")
    # The programs, which run in forked processes, define flags with the same names.
    for name in Chosen._fields:
        delattr(flags.FLAGS, name)
    tqdm.monitor_interval = 0  # a thread of tqdm would make forking unsafe
    began = time.monotonic()
    # A TemporaryDirectory would be deleted at the exit of every forked process.
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        outcomes = _campaign(folder, chosen)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text, out = outcome_table(outcomes), Path(chosen.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(text + "\n")
    records = [outcome._asdict() for outcome in outcomes]
    (out / "outcomes.json").write_text(json.dumps(records, indent=1) + "\n")
    print(f"{text}\n\n{len(outcomes)} cases in {(time.monotonic() - began) / 60:.1f} minutes")
    repaired = [outcome for outcome in outcomes if outcome.repaired]
    print(
        f"{sum(outcome.good for outcome in repaired)} of {len(repaired)} programs that ran again "
        "without the fault had the same result"
    )
    sys.exit(int(not all(outcome.good for outcome in outcomes)))


class Chosen(NamedTuple):
    """The values of the flags."""

    only: list[str]
    match: str
    sample: int
    seed: int
    jobs: int
    out: str


def _campaign(folder: Path, chosen: Chosen) -> list[Outcome]:
    """Create the tiny run, and run the chosen cases."""
    warm_up(folder / "xla")
    original = Original(folder)
    if {"kills", "disk"} & {*chosen.only}:
        original.measure(sweep_command())
    if "peers" in chosen.only:
        measure_peers(original)
    cases = [case for group in chosen.only for case in GROUPS[group](original)]
    cases = [case for case in cases if chosen.match in case.name]
    if chosen.sample:
        rng = random.Random(chosen.seed)
        cases = rng.sample(cases, min(chosen.sample, len(cases)))
    return run_cases(original, cases, chosen.jobs)


def run_cases(original: Original, cases: list[Case], jobs: int) -> list[Outcome]:
    """Run every case in a forked process; return the outcomes in the order of the cases."""
    waiting = {idle: [i for i, case in enumerate(cases) if case.idle == idle] for idle in (0, 1)}
    room, running, outcomes = {0: jobs, 1: _IDLE}, {}, {}
    with tqdm(total=len(cases), unit=" cases", mininterval=1.0) as bar:
        while running or any(waiting.values()):
            for idle, queue in waiting.items():
                while queue and sum(cases[i].idle == idle for i in running.values()) < room[idle]:
                    i = queue.pop(0)
                    running[_fork(original, cases[i], f"case-{i}")] = i
            i = running.pop(os.wait()[0])
            outcomes[i] = _collect(original.folder / f"case-{i}", cases[i])
            for outcome in outcomes[i]:
                if not outcome.good:
                    bar.write(f"{outcome.kind}: {outcome.case}, {outcome.program}", sys.stderr)
                    bar.write("    " + outcome.detail.replace("\n", "\n    "), sys.stderr)
            bar.update()
    return [outcome for i in range(len(cases)) for outcome in outcomes[i]]


def _fork(original: Original, case: Case, name: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        (original.folder / name).mkdir()
        outcomes = case.play(original, name)
        (original.folder / name / "outcomes").write_text(json.dumps(outcomes))
    except BaseException:
        (original.folder / name / "problem").write_text(traceback.format_exc())
    os._exit(0)


def _collect(folder: Path, case: Case) -> list[Outcome]:
    """Return the outcomes of a case, and delete its folder."""
    if (folder / "outcomes").exists():
        found = [Outcome(*x) for x in json.loads((folder / "outcomes").read_bytes())]
    else:
        problem = (folder / "problem").read_text() if (folder / "problem").exists() else "no result"
        found = [Outcome(case.group, case.name, "campaign", TRACEBACK, problem)]
    shutil.rmtree(folder, ignore_errors=True)
    return found


if __name__ == "__main__":
    app.run(main)
