"""Group runs that differ only in their seeds, and list the differences between their configs."""

import collections
import itertools
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from comparing.runs import ComparedRun
from training.workdir import PLACES

ABSENT = "–"  # shown for a field that the config of a system does not have


class System(NamedTuple):
    """Runs with equal configs, except for the seed, and with reports of equal settings."""

    name: str
    runs: list[ComparedRun]
    # The name of an earlier system with the same config and these seeds, among others.
    repeats: str = ""

    @property
    def seeds(self) -> str:
        """The seeds of the runs as text, such as "0, 1, 2"."""
        return ", ".join(str(run.fields["seed"]) for run in self.runs)


class Difference(NamedTuple):
    """A field in which the systems differ, and its value for each system."""

    name: str
    values: list[str]


def group_runs(runs: Sequence[ComparedRun]) -> list[System]:
    """Group runs into systems, in the order of the first runs with their configs.

    A seed that was trained twice is not two seeds: its second run belongs to another system.
    """
    keys = [(_config_key(run), run.fields["train.init_from"]) for run in runs]
    times = collections.Counter(keys)
    by_config: dict[tuple, list[ComparedRun]] = {}
    for (key, origin), run in zip(keys, runs, strict=True):
        # Several seeds may also start from one run, whose name has nothing to do with their seeds.
        origin = _without_seed(run) if times[key, origin] == 1 else origin
        by_config.setdefault((key, origin), []).append(run)
    groups: list[list[ComparedRun]] = []
    firsts: list[int] = []  # of every group: the first one with the same config
    for group in [group for same in by_config.values() for group in _by_report(same)]:
        parts = _by_repetition(group)
        firsts += [len(groups)] * len(parts)
        groups += parts
    names = _names(groups)
    return [
        System(name, group, names[first] if first < i else "")
        for i, (name, group, first) in enumerate(zip(names, groups, firsts, strict=True))
    ]


def _config_key(run: ComparedRun) -> tuple:
    """Return what the runs of a system have in common, except the run that they start from."""
    fields = ((name, repr(x)) for name, x in run.fields.items() if name != "train.init_from")
    same = ((name, x) for name, x in fields if name != "seed" and not name.startswith(PLACES))
    return run.corpus, *sorted(same)


def _without_seed(run: ComparedRun) -> str:
    """Return train.init_from with a placeholder for the last number that equals the seed.

    Each seed of a system may be fine-tuned from a run with the same seed: seed 0 from runs/first_0,
    and seed 1 from runs/first_1.
    """
    folder, at, checkpoint = str(run.fields["train.init_from"]).partition("@")
    for found in reversed([*re.finditer(r"\d+", folder)]):
        if found.group() == str(run.fields["seed"]):
            return f"{folder[: found.start()]}SEED{folder[found.end() :]}{at}{checkpoint}"
    return folder + at + checkpoint


def _by_report(runs: Sequence[ComparedRun]) -> list[list[ComparedRun]]:
    """Divide runs by the decode settings and the kind of checkpoint of their reports.

    Runs without a report belong to the first group.
    """

    def key(run: ComparedRun) -> tuple:
        decode = ((name, repr(x)) for name, x in _decode_settings(run).items())
        return _checkpoint_kind(run), *sorted(decode)

    first = next((key(run) for run in runs if run.report), ())
    groups: dict[tuple, list[ComparedRun]] = {}
    for run in runs:
        groups.setdefault(key(run) if run.report else first, []).append(run)
    return list(groups.values())


def _by_repetition(runs: Sequence[ComparedRun]) -> list[list[ComparedRun]]:
    """Divide runs into groups without equal seeds: the first run of every seed, the second, …"""
    times: collections.Counter[object] = collections.Counter()
    groups: dict[int, list[ComparedRun]] = {}
    for run in runs:
        seed = run.fields["seed"]
        groups.setdefault(times[seed], []).append(run)
        times[seed] += 1
    return list(groups.values())


def run_names(runs: Sequence[ComparedRun]) -> list[str]:
    """Return the folders of runs, without the parent folders that all of them have in common."""
    paths = [str(run.folder) for run in runs]
    try:
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:  # absolute and relative paths
        return paths
    return [os.path.relpath(path, common or ".") for path in paths]


# Matches the end of the common prefix of names such as "dot/seed0" and "dot/seed1".
_SEED = re.compile(r"[/ _.,=-]*(?:seeds?|runs?)?[/ _.,=-]*$")


def _names(groups: list[list[ComparedRun]]) -> list[str]:
    """Name every system after the common beginning of its folders, or after all of its folders."""
    of_runs = iter(run_names([run for group in groups for run in group]))
    by_group = [[next(of_runs) for _ in group] for group in groups]
    names = [
        _SEED.sub("", _common_start(folders)) if len(folders) > 1 else folders[0]
        for folders in by_group
    ]
    return [
        name if name and names.count(name) == 1 else ", ".join(folders)
        for name, folders in zip(names, by_group, strict=True)
    ]


def _common_start(texts: Sequence[str]) -> str:
    """Return the characters with which all texts begin."""
    columns = zip(*texts, strict=False)
    return "".join(column[0] for column in itertools.takewhile(lambda c: len({*c}) == 1, columns))


def differences(systems: Sequence[System]) -> list[Difference]:
    """Return the fields in which the systems differ, except the seed and the places of files.

    Fields of the decode settings are followed by those that their reports used, if these differ
    from the configs, and by the kind of checkpoint. The content of the corpus is the last field.
    """
    names = dict.fromkeys(name for system in systems for name in system.runs[0].fields)
    found = []
    for name in names:
        if name != "seed" and not name.startswith(PLACES):
            values = [_text(system.runs[0].fields.get(name, ABSENT)) for system in systems]
            found.append(Difference(name, values))
    scored = [
        next((run for run in system.runs if run.report), system.runs[0]) for system in systems
    ]
    decode = [_decode_settings(run) for run in scored]
    for name in dict.fromkeys(name for settings in decode for name in settings):
        reported = [
            _text(settings.get(name, system.runs[0].fields.get(name, ABSENT)))
            for system, settings in zip(systems, decode, strict=True)
        ]
        found.append(Difference(f"{name} (report)", reported))
    found.append(Difference("checkpoint (report)", [_checkpoint_kind(run) for run in scored]))
    found.append(Difference("corpus", [system.runs[0].corpus or ABSENT for system in systems]))
    return [difference for difference in found if len(set(difference.values)) > 1]


def _decode_settings(run: ComparedRun) -> dict[str, object]:
    """Return the decode settings of a run's report that are not those of its config."""
    used = (run.report or {}).get("decode") or {}
    return {
        f"decode.{name}": value
        for name, value in used.items()
        if run.fields.get(f"decode.{name}", value) != value
    }


def _checkpoint_kind(run: ComparedRun) -> str:
    """Return which kind of checkpoints a report has scored: one, their average or an ensemble."""
    steps = (run.report or {}).get("checkpoints", [])
    if any(isinstance(member, list) for member in steps):
        return "ensemble"
    return "average" if len(steps) > 1 else "one"


def _text(value: object) -> str:
    return value if isinstance(value, str) and value else repr(value)
