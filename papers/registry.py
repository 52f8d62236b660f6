"""Find all tables that reproduce.py can reproduce: every module-level `Table` in papers/tables.

A target is named after its module and its constant: TABLE1 in luong2015.py is the target
luong2015.table1. FRONTIER in frontier.py, a table with the name of its module, is the target
frontier.
"""

import re

from configs.discover import discover
from papers.table import Table


def find_targets() -> dict[str, Table]:
    """Map target names to tables, ordered by year, module and position in the module."""
    found = discover("papers.tables", Table).items()
    ordered = sorted(found, key=lambda item: (_year(item[0][0]), item[0][0]))
    return {_target(module, name.lower()): table for (module, name), table in ordered}


def _target(module: str, table: str) -> str:
    return module if table == module else f"{module}.{table}"


def _year(module: str) -> int:
    """Return the year in a module's name; modules without a year are sorted last."""
    year = re.search(r"\d{4}$", module)
    return int(year[0]) if year else 9999
