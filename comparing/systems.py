"""Group runs that differ only in their seeds, and list the differences between their configs."""

import itertools
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from comparing.runs import ComparedRun
from training.workdir import PLACES

ABSENT = "–"  # shown for a field that the config of a system does not have


class System(NamedTuple):
    """Runs whose configs are equal except for the seed."""

    name: str
    runs: list[ComparedRun]

    @property
    def seeds(self) -> str:
        """The seeds of the runs as text, such as "0, 1, 2"."""
        return ", ".join(str(run.fields["seed"]) for run in self.runs)


class Difference(NamedTuple):
    """A field in which the systems differ, and its value for each system."""

    name: str
    values: list[str]


def group_runs(runs: Sequence[ComparedRun]) -> list[System]:
    """Group runs into systems, in the order of their first runs."""
    groups: dict[tuple, list[ComparedRun]] = {}
    for run in runs:
        fields = {n: x for n, x in run.fields.items() if n != "seed" and not n.startswith(PLACES)}
        key = (run.corpus, *sorted((name, repr(value)) for name, value in fields.items()))
        groups.setdefault(key, []).append(run)
    names = _names(list(groups.values()))
    return [System(name, group) for name, group in zip(names, groups.values(), strict=True)]


def run_names(runs: Sequence[ComparedRun]) -> list[str]:
    """Return the folders of runs, without the parent folders that all of them have in common."""
    paths = [str(run.folder) for run in runs]
    try:
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:  # absolute and relative paths
        return paths
    return [os.path.relpath(path, common or ".") for path in paths]


# What remains at the end of the common part of names such as "dot/seed0" and "dot/seed1".
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

    Fields of the decoding settings are followed by those that their reports used, if these differ
    from the configs. The content of the corpus is the last field.
    """
    names = dict.fromkeys(name for system in systems for name in system.runs[0].fields)
    found = []
    for name in names:
        if name != "seed" and not name.startswith(PLACES):
            values = [_text(system.runs[0].fields.get(name, ABSENT)) for system in systems]
            found.append(Difference(name, values))
    decode = [_decode_settings(system) for system in systems]
    for name in dict.fromkeys(name for settings in decode for name in settings):
        reported = [
            _text(settings.get(name, system.runs[0].fields.get(name, ABSENT)))
            for system, settings in zip(systems, decode, strict=True)
        ]
        found.append(Difference(f"{name} (report)", reported))
    found.append(Difference("corpus", [system.runs[0].corpus for system in systems]))
    return [difference for difference in found if len(set(difference.values)) > 1]


def _decode_settings(system: System) -> dict[str, object]:
    """Return the decode settings of a system's first report that are not those of its config."""
    report, fields = system.runs[0].report, system.runs[0].fields
    used = (report or {}).get("decode") or {}
    return {
        f"decode.{name}": value
        for name, value in used.items()
        if fields.get(f"decode.{name}", value) != value
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) and value else repr(value)
