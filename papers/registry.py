"""Find all tables that reproduce.py can reproduce: every module-level `Table` in papers/tables.

A target is named after its module and its constant: TABLE1 in luong2015.py is the target
luong2015.table1. A `Frontier` is named after its module only.
"""

import re

from configs.discover import discover
from papers.frontier import Frontier
from papers.table import Table


def find_targets() -> dict[str, Table]:
    """Map target names to tables, ordered by year, module and position in the module."""
    found = discover("papers.tables", Table).items()
    ordered = sorted(found, key=lambda item: (_year(item[0][0]), item[0][0]))
    return {f"{module}.{name.lower()}": table for (module, name), table in ordered}


def find_frontiers() -> dict[str, Frontier]:
    """Map target names to comparisons at equal budgets."""
    found = discover("papers.tables", Frontier).items()
    return {module: frontier for (module, _), frontier in found}


def _year(module: str) -> int:
    """Return the year in a module's name; modules without a year are sorted last."""
    year = re.search(r"\d{4}$", module)
    return int(year[0]) if year else 9999
