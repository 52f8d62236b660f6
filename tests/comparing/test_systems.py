"""Tests of the runs that --runs names, and of the systems that they form."""

import json

import pytest

from comparing.page import write_comparison
from comparing.runs import load_run, parse_runs
from comparing.systems import differences, group_runs
from errors import UserError
from tests.comparing.runs import write_run


def test_a_comparison_needs_two_runs(runs):
    assert parse_runs(f"{runs[0]},{runs[1]}") == runs[:2]
    for text, fact in (
        (f"{runs[0]},{runs[0]}", f"it names {runs[0]}: list different folders"),
        (str(runs[0]), "at least two runs"),
    ):
        with pytest.raises(UserError, match=fact):
            parse_runs(text)


def test_a_seed_that_was_trained_twice_is_not_two_seeds(runs, tmp_path):
    """Its second run is another system, and the page says so."""
    again = [write_run(tmp_path / f"again/seed{s}", s) for s in (0, 1)]
    loaded = [load_run(folder, "test") for folder in (*runs, *again)]
    systems = group_runs(loaded)
    assert [(system.name, system.seeds, system.repeats) for system in systems] == [
        ("dot", "0, 1, 2", ""), ("again", "0, 1", "dot"), ("a,b", "0, 1", ""),
    ]  # fmt: skip
    (note,) = write_comparison([*runs, *again], "test", 10, tmp_path / "page.html")
    assert note.startswith("again repeats seeds of dot (0, 1) with the same config")


def test_runs_that_differ_only_in_the_seed_are_one_system(systems, tmp_path):
    assert [(system.name, system.seeds) for system in systems] == [("dot", "0, 1, 2"),
                                                                   ("a,b", "0, 1")]  # fmt: skip
    found = differences(systems)
    assert [tuple(x) for x in found] == [("model.attention.score", ["general", "dot"])]
    other = load_run(write_run(tmp_path / "moved", seed=3, data__cache="elsewhere"), "test")
    assert len(group_runs([*systems[0].runs, other])) == 1  # the place of the cache has no effect
    changed = json.loads((tmp_path / "moved" / "run.json").read_text())
    changed[0]["data"] = "dates-2"
    (tmp_path / "moved" / "run.json").write_text(json.dumps(changed))
    groups = group_runs([*systems[0].runs, load_run(tmp_path / "moved", "test")])
    assert [tuple(x) for x in differences(groups)] == [("corpus", ["dates-1", "dates-2"])]
    assert [group.name for group in groups] == ["dot", "moved"]


def test_systems_have_names_without_a_common_beginning(tmp_path):
    folders = [write_run(tmp_path / "x", 0), write_run(tmp_path / "y", 1)]
    (system,) = group_runs([load_run(folder, "test") for folder in folders])
    assert system.name == "x, y"


def test_decode_settings_of_reports_are_differences(systems):
    run = systems[0].runs[0]
    beam = run.fields["decode.beam"]
    changed = run._replace(report=run.report | {"decode": {"beam": beam + 4}})
    found = differences([systems[0]._replace(runs=[changed]), systems[0]])
    assert [tuple(x) for x in found] == [("decode.beam (report)", [str(beam + 4), str(beam)])]


def test_seeds_scored_with_other_settings_are_another_system(systems):
    """A run without a report stays with the first runs of its config."""
    first, second, third = systems[0].runs
    other = second._replace(report=second.report | {"decode": {"beam": 9}})
    groups = group_runs([first._replace(report=None), other, third])
    assert [group.seeds for group in groups] == ["0, 1", "2"]
    beam = str(third.fields["decode.beam"])
    assert [tuple(x) for x in differences(groups)] == [("decode.beam (report)", ["9", beam])]
    average = second._replace(report=second.report | {"checkpoints": [20, 30]})
    ensemble = third._replace(report=third.report | {"checkpoints": [[20], [30]]})
    kinds = ("checkpoint (report)", ["one", "average", "ensemble"])
    assert [tuple(x) for x in differences(group_runs([first, average, ensemble]))] == [kinds]
    same = first._replace(report=first.report | {"decode": {"beam": first.fields["decode.beam"]}})
    assert len(group_runs([same, second])) == 1


def test_seeds_may_start_from_runs_with_the_same_seeds(systems):
    run = systems[0].runs[0]

    def seeds(*starts):
        """Return the seeds of each system of runs with these seeds and train.init_from."""
        runs = [
            run._replace(fields=run.fields | {"seed": seed, "train.init_from": origin})
            for seed, origin in starts
        ]
        return [system.seeds for system in group_runs(runs)]

    assert seeds((0, "a_0"), (1, "a_1"), (10, "a_10@1")) == ["0, 1", "10"]
    assert seeds((0, "v1/a0@0"), (1, "v1/a1@0"), (0, "v1/b0@0")) == ["0, 1", "0"]
    assert seeds((0, "a_0"), (1, "a_0"), (2, "a_0")) == ["0, 1, 2"]
    assert seeds((0, "a_0"), (1, "a_0"), (0, "a_1"), (1, "a_1")) == ["0, 1", "0, 1"]
    assert seeds((0, ""), (1, "a"), (2, "b")) == ["0", "1", "2"]
