"""Every row of every table is a config that builds, and says what it is of."""

from pathlib import Path

import pytest

from papers.figures import FIGURES
from papers.measures import MEASURES
from papers.plan import make_plan
from papers.registry import TARGETS


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_row_builds_on_every_corpus_in_every_size(target):
    table = TARGETS[target]
    for data in table.data:
        for size in table.sizes:
            plan = make_plan(target, table, data, size, Path("results"), 1, "")
            for row in plan.runs().values():
                config = plan.config(row)
                assert set(row.decode) <= set(config.get("decode", {}))
            assert all(len(name) < 200 for name in plan.runs())  # they are folders


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_table_speaks_of_its_own_rows(target):
    table = TARGETS[target]
    names = [row.name for row in table.rows]
    assert len(set(names)) == len(names)
    assert {name for pair in table.claims for name in pair} <= set(names)
    assert {name for row in table.rows for name in row.merges} <= set(names)
    published = {name for row in table.rows for name in row.published}
    assert published <= set(table.measures) <= set(MEASURES)
    assert set(table.figures) <= set(FIGURES)
    assert table.source and not table.source.endswith(".")
    assert not table.differs or table.differs.endswith(".")
