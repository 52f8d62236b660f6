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
            rows = [row for row in table.rows if not row.merges]
            for row in rows:
                assert row.checkpoint != "average" or plan.config(row).train.keep > 1
            # Rows are what they are called: none of them is another one by another name.
            reports = {plan.report(row, 0) for row in rows}
            assert len(reports) == len(rows), (data, size)


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


def test_tables_share_runs_and_a_changed_recipe_is_another_run():
    one, four = (
        make_plan(name, TARGETS[name], "", "", Path("results"), 1, "")
        for name in ("luong2015.table1", "luong2015.table4")
    )
    assert len(one.runs().keys() & four.runs().keys()) == 2  # location with feeding, and local-p
    row = TARGETS["luong2015.table1"].rows[0]
    assert one.run_name(row) == one._replace(overrides={"data.dir": "elsewhere"}).run_name(row)
    assert one.run_name(row) != one._replace(overrides={"train.epochs": 3.0}).run_name(row)
