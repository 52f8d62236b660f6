"""Tests of untrusted workdirs: signatures of config.json, digests of vocabularies, wrong types."""

import hashlib
import itertools
import json
import os
import shutil

import pytest

import program
from errors import UserError
from reading import read_bytes
from tests.conftest import tiny_config
from training.checkpoints import Checkpoints
from training.signature import is_signed
from training.vocabularies import check_vocabularies, compare_vocabularies, keep_vocabularies
from training.workdir import is_done, load_config, open_workdir, starts
from writing import write_bytes


@pytest.fixture
def workdir(tmp_path, cache, monkeypatch):
    """A workdir that train.py has opened, and a key that belongs to this test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with open_workdir(tmp_path / "run", tiny_config(cache), [], "data-1"):
        return tmp_path / "run"


def test_a_config_that_this_user_has_trained_is_trusted(workdir, tmp_path):
    load_config(workdir, signed=True)
    key = tmp_path / "config" / "alignax" / "key"
    assert key.stat().st_mode & 0o777 == 0o600 and key.stat().st_size == 32
    shutil.copytree(workdir, tmp_path / "copy")
    load_config(tmp_path / "copy", signed=True)


def name_another_cache(workdir, cache):
    """Edit config.json as somebody does who also corrects its digest."""
    path, signature = workdir / "config.json", workdir / "signature"
    path.write_text(path.read_text().replace(str(cache), "/elsewhere"))
    code = json.loads(signature.read_text())["hmac"]
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    signature.write_text(json.dumps({"sha256": sha256, "hmac": code}))


@pytest.mark.parametrize("case", ["other key", "no key", "short key", "unsigned", "edited"])
def test_a_config_of_another_user_is_not_trusted(case, workdir, tmp_path, cache):
    key, named = tmp_path / "config" / "alignax" / "key", cache
    if case == "no key":
        key.unlink()
    elif case == "unsigned":
        (workdir / "signature").unlink()
    elif case == "edited":
        name_another_cache(workdir, cache)
        named = "/elsewhere"
    else:
        key.write_bytes(b"k" * (32 if case == "other key" else 0))
    expected = rf"data.corpus='dates', .*data.cache='{named}'.*--trust_workdir"
    with pytest.raises(UserError, match=expected):
        load_config(workdir, signed=True)
    assert load_config(workdir).data.cache == str(named)


def test_a_config_that_is_replaced_after_it_was_read_is_not_trusted(workdir, cache, monkeypatch):
    signed = (workdir / "config.json").read_bytes()
    name_another_cache(workdir, cache)

    def read_and_replace(path):
        content = read_bytes(path)
        path.write_bytes(signed)
        return content

    monkeypatch.setattr("training.workdir.read_bytes", read_and_replace)
    with pytest.raises(UserError, match=r"data.cache='/elsewhere'"):
        load_config(workdir, signed=True)


def test_a_config_that_is_replaced_after_it_was_written_is_not_signed(tmp_path, cache, monkeypatch):
    def write_and_replace(path, content):
        write_bytes(path, content)
        path.write_text(path.read_text().replace(str(cache), "/elsewhere"))

    monkeypatch.setattr("training.workdir.write_bytes", write_and_replace)
    with (
        pytest.raises(UserError, match=r"config.json was changed after train.py wrote it"),
        open_workdir(tmp_path / "run", tiny_config(cache), [], "data-1"),
    ):
        raise AssertionError
    assert not is_signed(tmp_path / "run", (tmp_path / "run" / "config.json").read_bytes())


def test_resuming_signs_a_config_with_the_folders_of_the_command_line(workdir, cache):
    (workdir / "signature").unlink()
    path = workdir / "config.json"
    path.write_text(path.read_text().replace(str(cache), "/elsewhere"))
    with open_workdir(workdir, tiny_config(cache), [], "data-1"):
        assert load_config(workdir, signed=True).data.cache == str(cache)


def test_training_works_without_a_home_folder(tmp_path, cache, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    with open_workdir(tmp_path / "run", tiny_config(cache), [], "data-1"):
        assert "config.json is not signed" in caplog.text
    with pytest.raises(UserError, match="no signature of yours"):
        load_config(tmp_path / "run", signed=True)


def test_a_changed_config_is_refused_on_every_machine(workdir):
    path = workdir / "config.json"
    path.write_text(path.read_text().replace('"beam": 1', '"beam": 3'))
    with pytest.raises(UserError, match=r"config.json was changed after train.py wrote it"):
        load_config(workdir)


VALUES = [None, [], {}, 3, "x", -1, 10**12, 1e308, True, [None], {"a": 1}]


def test_wrong_types_in_a_config_are_one_message(workdir):
    """Every field is replaced by values of other types, each by two; all errors are messages."""
    (workdir / "signature").unlink()
    path = workdir / "config.json"
    saved = json.loads(path.read_text())
    sections = [saved, *(x for x in saved.values() if isinstance(x, dict))]
    messages, values = 0, itertools.cycle(VALUES)
    for section in sections:
        for name, before in section.items():
            for value in itertools.islice(values, 2):
                section[name] = value
                path.write_text(json.dumps(saved))
                try:
                    load_config(workdir)
                except UserError as error:
                    assert str(path) in str(error)
                    messages += 1
            section[name] = before
    assert messages > 100


@pytest.mark.parametrize("value", [*VALUES, [3], [{"data": 3}]])
def test_wrong_types_in_the_record_are_one_message(value, workdir, cache):
    (workdir / "run.json").write_text(json.dumps(value))
    with pytest.raises(UserError, match=r"run.json is corrupt"):
        starts(workdir)


@pytest.mark.parametrize(
    "value", [*VALUES, {"done": 1, "checkpoint": "."}, {"done": True, "checkpoint": "n" * 300}]
)
def test_a_wrong_status_is_not_done(value, tmp_path):
    (tmp_path / "status.json").write_text(json.dumps(value))
    assert not is_done(tmp_path)


def test_the_vocabularies_of_a_run_are_written_once(tmp_path, caplog):
    source, folder = tmp_path / "cache", tmp_path / "vocabulary"
    source.mkdir()
    (source / "a.vocab").write_text("before\n")
    (source / "b.vocab").write_text("b\n")
    keep_vocabularies(source, folder)
    assert sorted(os.listdir(folder)) == ["a.vocab", "b.vocab", "sha256.json"]
    (source / "a.vocab").write_text("after\n")
    for check in (keep_vocabularies, compare_vocabularies):
        with pytest.raises(UserError, match=r"cache has another a.vocab than .*vocabulary"):
            check(source, folder)
    assert (folder / "a.vocab").read_text() == "before\n"
    (source / "a.vocab").write_text("before\n")
    (folder / "a.vocab").write_text("damaged\n")
    with pytest.raises(UserError, match=r"a.vocab is missing or corrupt \(its SHA-256"):
        check_vocabularies(folder)
    keep_vocabularies(source, folder)  # resuming repairs the copy of the run
    check_vocabularies(folder)
    assert "a.vocab is missing or damaged: writing it again" in caplog.text


def test_vocabularies_of_an_older_version_are_compared(tmp_path):
    (tmp_path / "a.vocab").write_text("a\n")
    source = tmp_path / "cache"
    source.mkdir()
    (source / "a.vocab").write_text("b\n")
    check_vocabularies(tmp_path)
    with pytest.raises(UserError, match=r"another a.vocab"):
        keep_vocabularies(source, tmp_path)


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?", "a]", "a\\b", "a\udcff"])
def test_a_path_that_orbax_cannot_use_is_refused(name, tmp_path):
    for use in (lambda path: program.folder(str(path)), Checkpoints):
        with pytest.raises(UserError, match=r"cannot contain checkpoints, .*choose a folder"):
            use(tmp_path / name / "run")
    assert not list(tmp_path.iterdir())
