"""Flags that several benchmarks share."""

import re
from collections.abc import Iterable

from absl import flags

from errors import UserError
from program import show_in_help

_DEFINE = {
    "only": lambda: flags.DEFINE_list(
        "only", [], "Comma-separated parts to measure. Default: all parts."
    ),
    "out": lambda: flags.DEFINE_string("out", "docs/performance", "Folder for the results."),
    "subjects": lambda: flags.DEFINE_string(
        "subjects", "", "Use only the models or rows whose names match this regular expression."
    ),
}


def define(*names: str) -> None:
    """Define the flags that a benchmark uses, and show them in --help."""
    for name in names:
        if name not in flags.FLAGS:  # the tests import several benchmarks
            _DEFINE[name]()
        show_in_help(name)


def selected_parts(parts: Iterable[str]) -> list[str]:
    """Return the parts of a benchmark that --only selects (default: all parts)."""
    parts, only = list(parts), flags.FLAGS.only
    unknown = set(only) - set(parts)
    if unknown:
        raise UserError(f"--only={unknown.pop()} is unknown: use one or more of {', '.join(parts)}")
    return [part for part in parts if not only or part in only]


def selected(names: Iterable[str]) -> list[str]:
    """Return the names of models or rows that --subjects selects, which must be at least one."""
    names, pattern = list(names), flags.FLAGS.subjects
    found = [name for name in names if re.search(pattern, name)]
    if not found:
        raise UserError(f"--subjects={pattern} matches none of these names: {'; '.join(names)}")
    return found
