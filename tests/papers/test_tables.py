"""Tests of papers/tables: all tables are found, and every row has a valid config."""

import pickle
from pathlib import Path

import pytest

from configs.schema import common
from configs.schema.field import Field
from errors import UserError
from papers import tables
from papers.claims import Claim
from papers.figures import FIGURES
from papers.plan import make_plan
from papers.registry import find_targets
from papers.table import Row, Table

TARGETS = find_targets()


def test_targets_are_ordered_by_year_module_and_definition():
    expected = [
        "schuster1997.series", "schuster1997.classes", "bahdanau2015.table1", "luong2015.table1",
        "luong2015.table6", "luong2015.figure6", "cui2017.readers", "vaswani2017.table3",
        "bai2018.jsb", "lake2018.simple", "lake2018.turn_left", "dates.length", "multi30k.german",
    ]  # fmt: skip
    assert [target for target in TARGETS if target in expected] == expected


def test_a_new_module_adds_a_target(tmp_path, monkeypatch):
    text = """
from papers.table import Row, Table
ROWS = (Row("a"),)
TABLE9 = Table("New", "a paper", "luong2015", ("bleu",), ROWS, ("dates",), 1.0)
"""
    (tmp_path / "author2030.py").write_text(text)
    monkeypatch.setattr(tables, "__path__", [*tables.__path__, str(tmp_path)])
    targets = find_targets()
    assert set(targets) - set(TARGETS) == {"author2030.table9"}
    assert targets["author2030.table9"].title == "New"


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_row_has_a_valid_config_for_every_corpus_and_size(target):
    table = TARGETS[target]
    rows = [row for row in table.rows if not row.merges]
    for data in table.data[1:]:
        make_plan(target, table, data, "", Path("results"), 1, "")
    for size in table.sizes:
        plan = make_plan(target, table, "", size, Path("results"), 1, "")
        for row in rows:
            assert row.checkpoint != "average" or plan.config(row).train.keep > 1
        # Two rows with the same experiment would overwrite each other's report, so folders differ.
        assert len({plan.report_folder(row, 0) for row in rows}) == len(rows), size


@pytest.mark.parametrize(
    "row", [Row("a", ensemble=True), Row("a", decode={"beam": 5}), Row("a", checkpoint="last")]
)
def test_rows_that_need_scoring_are_not_read_from_logs(row):
    with pytest.raises(ValueError, match="training logs do not have the results of these rows: a"):
        Table("T", "a paper", "luong2015", ("bleu",), (row,), ("dates",), 1.0, from_logs=True)


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_workers_can_receive_every_table(target):
    assert pickle.loads(pickle.dumps(TARGETS[target])) == TARGETS[target]


@pytest.mark.parametrize("target", ["luong2015.table4", "toshniwal2016.cmudict"])
def test_these_tables_use_the_local_attention_of_the_paper(target):
    plan = make_plan(target, TARGETS[target], "", "", Path("results"), 1, "")
    local = {row.name: plan.config(row) for row in plan.table.rows if row.name.startswith("local")}
    assert {config.model.attention.align for config in local.values()} == {"local_m", "local_p"}
    for config in local.values():
        if config.model.attention.align == "local_m":
            assert not config.model.attention.clamp
        else:
            assert config.train.diagonal == 0


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_figures_exist_and_texts_have_the_right_punctuation(target):
    table = TARGETS[target]
    assert set(table.figures) <= set(FIGURES)
    assert table.source and not table.source.endswith(".")
    assert not table.differs or table.differs.endswith(".")


def test_every_split_of_scan_has_the_same_architectures():
    tables = [TARGETS[f"lake2018.{split}"] for split in ("simple", "length", "jump", "turn_left")]
    rows = {
        tuple(row.name for row in table.rows[2:]) for table in [*tables, TARGETS["dates.length"]]
    }
    assert len(rows) == 1 and len(rows.pop()) == 10
    for table in tables:
        assert any("exact" in row.published for row in table.rows[:2])
        assert "from memory" in table.source


def test_tables_share_runs_with_equal_configs():
    one, four = (
        make_plan(name, TARGETS[name], "dates", "", Path("results"), 1, "")
        for name in ("luong2015.table1", "luong2015.table4")
    )
    # Both tables contain location with input feeding, which is trained once. Local-p differs in
    # train.diagonal.
    assert len(one.runs().keys() & four.runs().keys()) == 1
    row = TARGETS["luong2015.table1"].rows[0]
    assert one.run_name(row) == one._replace(overrides={"data.dir": "elsewhere"}).run_name(row)
    assert one.run_name(row) != one._replace(overrides={"train.epochs": 3.0}).run_name(row)


def test_runs_keep_their_names_when_a_field_is_added(monkeypatch):
    name = "luong2015.table1"
    plan, row = (
        make_plan(name, TARGETS[name], "", "", Path("results"), 1, ""),
        TARGETS[name].rows[0],
    )
    before = plan.run_name(row)
    monkeypatch.setitem(common.TRAIN, "added", Field(1.0, "A field that was added."))
    assert plan.config(row).train.added == 1.0 and plan.run_name(row) == before
    assert plan._replace(overrides={"train.added": 2.0}).run_name(row) != before


def test_a_row_of_both_directions_adds_runs_on_the_reversed_corpus():
    rows = Row("one"), Row("both", link_settings={"symmetrize": "union"})
    table = Table("T", "s", "luong2015", ("aer",), rows, ("europarl_es_en", "dates"), 1.0)
    plan = make_plan("t", table, "", "", Path("results"), 2, "")
    forward, backward = plan.runs()
    assert forward.startswith("luong2015,europarl_es_en,")
    assert backward.startswith("luong2015,europarl_en_es,")
    assert [row.name for row in plan.runs()[forward]] == ["one", "both"]
    assert "data=europarl_en_es" in plan.flags({"name": backward}, 1)[0]
    data = plan.config(plan.runs()[backward][0]).data
    assert (data.source, data.target, data.alignment_order) == ("en", "es", "source-target")
    assert plan.reverse_folders(rows[0], 1) == []
    assert plan.reverse_folders(rows[1], 1) == [Path("results/runs") / backward / "seed1"]
    assert plan.report_folder(rows[0], 1) != plan.report_folder(rows[1], 1)
    with pytest.raises(UserError, match="dates has no reverse direction"):
        make_plan("t", table, "dates", "", Path("results"), 2, "")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"rows": (Row("a"), Row("a"))}, "same name: a"),
        ({"claims": (Claim("a", "b", "§1"),)}, "do not exist: b"),
        ({"claims": (Claim("a", "a", "§1", "wer"),)}, "measures of `claims`.*: wer"),
        ({"measures": ("effective",), "rows": (Row("a"), Row("b")),
          "claims": (Claim("a", "b", "§1"),)}, "neither lower nor higher.*: effective"),
        ({"rows": (Row("a", published={"bleu": 2.0}), Row("b", published={"bleu": 1.0})),
          "claims": (Claim("a", "b", "§1"),)}, "published results contradict a → b"),
        ({"measures": ("bleau",)}, "measures.*: bleau"),
        ({"rows": (Row("a", published={"wer": 2.0}),)}, "published.*: wer"),
        ({"rows": (Row("a", link_settings={"treshold": 0.2}),)}, "link_settings.*: treshold"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_table_is_reported_when_it_is_defined(mistake, message):
    good = {"measures": ("bleu",), "rows": (Row("a"),)}
    with pytest.raises(ValueError, match=message):
        Table("T", "s", "luong2015", data=("dates",), minutes=1.0, **(good | mistake))
