"""Find all tables that can be reproduced.

Every module-level `Table` of a module named after a paper, such as luong2015.py, or of multi30k.py
is a target. Its name is module.name_in_lowercase: TABLE1 in luong2015.py is luong2015.table1.
"""

import importlib
import pkgutil
import re

import papers
from papers.table import Table

_MODULE = re.compile(r"[a-z]+(?P<year>\d{4})|multi30k")


def find_targets() -> dict[str, Table]:
    """Return all tables by target name, ordered by year, module and definition.

    Modules without a year come last.
    """
    modules = [found for m in pkgutil.iter_modules(papers.__path__) if (found := _match(m.name))]
    return {
        f"{name}.{attribute.lower()}": value
        for _, name in sorted(modules)
        for attribute, value in vars(importlib.import_module(f"papers.{name}")).items()
        if isinstance(value, Table)
    }


def _match(name: str) -> tuple[int, str] | None:
    found = _MODULE.fullmatch(name)
    return (int(found["year"] or 9999), name) if found else None
