"""Tests of writing files: atomically, with modes, and as short and valid JSON."""

import ast
import errno
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from errors import UserError
from tests.test_structure import SOURCES, tree
from writing import to_json, write_json, write_lines, write_text, writing

# These files call json.dumps instead of to_json, which rounds numbers, because their output is
# hashed, compared or read back exactly.
EXACT = {
    "benchmarks/corpus_memory.py", "benchmarks/startup_process.py", "data/corpus.py",
    "data/manifest.py", "data/store.py", "exporting/description.py",
    "faults/campaign.py", "faults/damage.py", "faults/processes.py", "papers/plan.py",
    "sweeping/study.py", "training/checksums.py", "writing.py",
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float(np.float32(0.0041)), "0.0041"),
        (1 / 3, "0.333333"),
        (-2 / 3 * 1e-9, "-6.66667e-10"),
        (52341.1234, "52341.1"),
        (0.0, "0.0"),
        (5e-324, "5e-324"),
        (math.nan, "null"),
        (-math.inf, "null"),
        (7, "7"),
        (True, "true"),
        ({"bleu": [(np.float64(12.3456789), "ä")]}, '{"bleu": [[12.3457, "ä"]]}'),
    ],
)
def test_numbers_are_short_and_valid_json(value, text):
    assert to_json(value) == text


@pytest.mark.parametrize("value", [1753812345.6, 123456789.0, 2.0**52, 12345678901.5])
def test_times_and_counts_stay_exact(value):
    assert json.loads(to_json(value)) == value


def test_files_for_people_are_written_by_to_json():
    assert {str(path) for path in SOURCES if calls(path) & {"dump", "dumps"}} == EXACT


def calls(path):
    """Return the names of the `json` functions that a source file calls."""
    return {
        node.func.attr
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "json"
    }


def test_files_are_written_atomically(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    write_text(path, "before")

    def killed(*names):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "after")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["run.json"]


def test_files_and_folders_reach_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    write_json(tmp_path / "a.json", {"a": 1})
    assert [str(tmp_path) in path for path in synced] == [True, True]
    assert synced[1] == str(tmp_path)


def test_a_symbolic_link_is_replaced_and_modes_are_set(tmp_path):
    other, path = tmp_path / "other", tmp_path / "key"
    other.write_text("untouched")
    path.symlink_to(other)
    write_text(path, "secret", mode=0o600)
    assert other.read_text() == "untouched"
    assert path.read_text() == "secret" and path.stat().st_mode & 0o777 == 0o600


def test_a_name_that_is_not_utf8_can_be_written(tmp_path):
    write_json(tmp_path / "a.json", os.fsdecode(b"runs/\xff"))
    assert json.loads((tmp_path / "a.json").read_text()) == "runs/\udcff"


@pytest.mark.parametrize("name", ["file/run", "n" * 300, "loop/run"])
def test_a_folder_that_cannot_be_written_is_one_message(name, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    folder = tmp_path / name
    with pytest.raises(UserError, match=r"cannot write to .*; fix this and"), writing(folder):
        (folder / "more").mkdir(parents=True)


def test_errors_of_other_files_are_not_hidden(tmp_path):
    other = FileNotFoundError(errno.ENOENT, "No such file or directory", "/elsewhere/file")
    for error in (other, BrokenPipeError(errno.EPIPE, "Broken pipe")):
        with pytest.raises(type(error)), writing(tmp_path):
            raise error


def test_lines_replace_a_file_only_if_all_were_written(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    with pytest.raises(ValueError, match="stop"), write_lines(path) as file:
        file.write("half")
        raise ValueError("stop")
    assert path.read_text() == "old\n" and [x.name for x in tmp_path.iterdir()] == ["a.txt"]
    with write_lines(path) as file:
        file.write("ä\n")
    assert path.read_bytes() == "ä\n".encode() and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(IsADirectoryError), write_lines(tmp_path):
        pass
    with write_lines(Path("/dev/null")) as file:  # a device is not replaced
        file.write("x")
    assert Path("/dev/null").is_char_device()
