"""Tests of the flags that list the folders of runs."""

import functools

import pytest

from errors import UserError
from training.finding import find_workdirs

find = functools.partial(find_workdirs, flag="--runs")


@pytest.fixture
def runs(tmp_path):
    """The folders of five runs; the name of one parent folder contains a comma."""
    folders = [tmp_path / "dot" / f"seed{i}" for i in range(3)]
    folders += [tmp_path / "a,b" / f"seed{i}" for i in range(2)]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in ("config.json", "log.jsonl", "run.json", "status.json"):
            (folder / name).touch()
    return folders


def test_runs_are_listed_by_folders_and_patterns(runs, tmp_path):
    assert find(f"{runs[0]},{runs[3]},{runs[1]}") == [runs[0], runs[3], runs[1]]
    assert find(f"{tmp_path}/a,b/seed*,{runs[0]},{runs[3]}/../seed0") == [
        runs[3], runs[4], runs[0],
    ]  # fmt: skip
    assert find(f"{tmp_path}/*/seed0") == [runs[3], runs[0]]
    assert len(find(f"{tmp_path}/**/seed*")) == 5
    assert find("") == []


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("{run},{folder}/nothing", "{folder}/nothing is not .* because it does not exist"),
        ("{folder}/dot", "{folder}/dot is not .* because it has no config.json"),
        ("{folder}/wrong" + ",a name of 20 letters" * 300, "{folder}/wrong is not the folder"),
        ("{folder}/wrong,b/seed0", r"wrong is not .* \(nor is a longer part of .*wrong,b/seed0\)"),
        (",", "names no run"),
        ("{folder}/*/seed7", "the pattern .*/seed7 matches no file or folder: correct it"),
        ("{folder}/d*", "matches {folder}/dot, but no run, because .* one level deeper, as in"),
        ("{run}/*", "config.json, .*/log.jsonl, .*/run.json, …, but no run"),
        ("{folder}/a**,{run}", r"has \*\* next to other characters: use"),
    ],
)
def test_an_entry_that_names_no_run_is_an_error(runs, tmp_path, text, fact):
    names = {"run": str(runs[0]), "folder": str(tmp_path)}
    with pytest.raises(UserError, match="--runs.*" + fact.format(**names)):
        find(text.format(**names))


def test_a_run_that_is_named_twice_is_used_once(runs, caplog):
    assert find(f"{runs[0]},{runs[1]}") == runs[:2] and not caplog.messages
    assert find(f"{runs[0]},{runs[1]},{runs[0].parent}/*0") == runs[:2]
    assert caplog.messages == [f"--runs repeats {runs[0]}: every run is used once"]
