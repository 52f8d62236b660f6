"""Tests of reading damaged and unreadable files."""

import os

import pytest

from errors import UserError
from reading import DamagedFile, digest, read_bytes, read_json, read_lines, read_text, skip_mark


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property name"),
        (b"\xff", "byte 1 is not UTF-8"),
        (b"[" * 100_000, "recursion"),
        (b"9" * 10_000, "digits"),
        (b"[]", "its content is a list instead of an object"),
        (b"{}", "its content has no entry 'step'"),
        (b'{"step": true}', "'step' is true or false instead of an integer"),
        (b'{"step": null}', "'step' is null instead of an integer"),
        (b'{"step": 1, "loss": ""}', "'loss' is a string instead of a number"),
        (b'{"step": 1' + b"0" * 400 + b"}", "'step' is too large for a floating-point number"),
        (b'{"step": 1, "loss": -1' + b"0" * 400 + b"}", "'loss' is too large for a"),
        (b'{"step": 1, "files": {"a": 2}}', "'a' is an integer instead of a list"),
        (b'{"step": 1, "files": {"a": ["b", 2]}}', "item 1 of 'a' is an integer instead of a"),
    ],
)
def test_damaged_json_is_one_message(content, reason, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=rf"a\.json is corrupt \(.*{reason}.*\): fix it"):
        read_json(path, {"step": int, "loss?": float, "files?": {str: [str]}}, "fix it")


def test_json_of_the_right_types_is_returned(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('\ufeff{"step": 1, "loss": 2, "best": [null, 3], "more": [{}]}', "utf-8")
    kind = {"step": int, "loss": float, "best": [float | None], "more": [dict]}
    assert read_json(path, kind) == {"step": 1, "loss": 2, "best": [None, 3], "more": [{}]}


def test_lines_end_in_line_feeds(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffä\u2028\r\n\nb\n".encode())
    assert read_lines(path) == ["ä\u2028\r", "", "b"]
    path.write_bytes(b"a\nb")
    with pytest.raises(DamagedFile, match="its last line is incomplete"):
        read_lines(path)


@pytest.mark.parametrize("name", ["folder", "loop", "pipe", "missing", "file/name", "n" * 300])
def test_files_that_cannot_be_read_are_one_message(name, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for read in (read_bytes, read_text, read_json, digest):
        with pytest.raises(UserError, match=f"{name}.*: restore it from a backup"):
            read(tmp_path / name)


def test_digests_depend_on_the_content(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"")
    assert digest(path).startswith("e3b0c442")
    path.write_bytes(b"0")
    assert digest(path).startswith("5feceb66")


def test_a_byte_order_mark_is_skipped_at_the_start_only() -> None:
    mark = "\ufeff".encode()
    assert list(skip_mark([mark + b"a\n", mark + b"b\n"])) == [b"a\n", mark + b"b\n"]
    assert list(skip_mark([b"a"])) == [b"a"] and list(skip_mark([])) == []
