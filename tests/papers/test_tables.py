"""Every row of every table is a config that builds, and says what it is of."""

from pathlib import Path

import pytest

from papers.figures import FIGURES
from papers.plan import make_plan
from papers.registry import TARGETS
from papers.table import Row, Table


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_row_builds_on_every_corpus_in_every_size(target):
    table = TARGETS[target]
    rows = [row for row in table.rows if not row.merges]
    for data in table.data[1:]:
        make_plan(target, table, data, "", Path("results"), 1, "")
    for size in table.sizes:
        plan = make_plan(target, table, "", size, Path("results"), 1, "")
        for row in rows:
            assert row.checkpoint != "average" or plan.config(row).train.keep > 1
        # Rows are what they are called: none of them is another one by another name.
        assert len({plan.report(row, 0) for row in rows}) == len(rows), size


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_table_draws_what_can_be_drawn_and_speaks_in_sentences(target):
    table = TARGETS[target]
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


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        ({"rows": (Row("a"), Row("a"))}, "rows of one name: a"),
        ({"claims": (("a", "b"),)}, "rows that are not there: b"),
        ({"measures": ("bleau",)}, "papers/measures.py has not: bleau"),
        ({"rows": (Row("a", published={"wer": 2.0}),)}, "of other measures: wer"),
        ({"remarks": {"series": "Well."}}, "corpora that it has not: series"),
    ],
)
def test_a_slip_in_a_table_is_told_when_it_is_read(slip, told):
    good = {"measures": ("bleu",), "rows": (Row("a"),)}
    with pytest.raises(ValueError, match=told):
        Table("T", "s", "luong2015", data=("dates",), minutes=1.0, **(good | slip))
