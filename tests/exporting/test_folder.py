"""An exported folder is complete, or it does not exist."""

import os
import signal

import pytest

from errors import UserError
from exporting.folder import new_folder
from exporting.formats import FORMATS, check_format, find_format


def test_a_new_folder_appears_with_its_files(tmp_path):
    with new_folder(tmp_path / "a" / "b") as scratch:
        (scratch / "x").write_text("1")
        assert not (tmp_path / "a" / "b").exists()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert (tmp_path / "a" / "b" / "x").read_text() == "1"


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out") as scratch:
        (scratch / "x").write_text("1")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_existing_files_are_kept(kind, tmp_path):
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    elif kind == "link":
        out.symlink_to(tmp_path / "nowhere")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    message = "already exists and is not an empty folder"
    with pytest.raises(UserError, match=message), new_folder(out):
        raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ValueError("a bug"), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (OSError(28, "No space left on device"), UserError),
    ],
)
def test_a_failed_export_leaves_nothing_behind(error, raised, tmp_path):
    with pytest.raises(raised), new_folder(tmp_path / "exported" / "out") as scratch:
        (scratch / "x").write_text("1")
        raise error
    assert not [*tmp_path.iterdir()]


def test_a_terminated_export_leaves_nothing_behind(tmp_path):
    with pytest.raises(SystemExit), new_folder(tmp_path / "out") as scratch:
        (scratch / "x").write_text("1")
        os.kill(os.getpid(), signal.SIGTERM)
    assert not [*tmp_path.iterdir()]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("name", ["onnx", ""])
def test_an_unknown_format_lists_the_known_ones(name):
    with pytest.raises(UserError, match="safetensors, ctranslate2, stablehlo"):
        check_format(name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_package_is_named(name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UserError, match=rf"--format={name} needs .*pip install -r requirements"):
        find_format(name)
