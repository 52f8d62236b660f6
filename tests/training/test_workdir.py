import json
import os

import pytest

from errors import UserError
from tests.conftest import tiny_config
from training.workdir import check_workdir, is_done, load_config, open_workdir, write_whole


@pytest.fixture
def config(cache):
    return tiny_config(cache)


def test_two_runs_in_one_workdir_are_refused(config, tmp_path):
    refused = pytest.raises(UserError, match=rf"in use by process {os.getpid()} on .*: wait for")
    again = open_workdir(tmp_path, config, [], "data-1")
    with open_workdir(tmp_path, config, [], "data-1"), refused, again:
        raise AssertionError
    with open_workdir(tmp_path, config, [], "data-1"):  # the first has ended
        assert len(json.loads((tmp_path / "run.json").read_text())) == 2


def test_another_config_is_refused_but_not_another_mesh(config, tmp_path):
    with open_workdir(tmp_path, config, [], "data-1"):
        pass
    config.mesh.fsdp = 4
    check_workdir(tmp_path, config)
    config.seed = 1
    with pytest.raises(UserError, match=r"another config \(seed: 0 there, 1 here\)"):
        check_workdir(tmp_path, config)


def test_a_workdir_that_cannot_be_written_is_a_sentence(config, tmp_path):
    (tmp_path / "file").write_text("")
    refused = pytest.raises(UserError, match=r"cannot write to .*file: File exists")
    with refused, open_workdir(tmp_path / "file", config, [], "data-1"):
        raise AssertionError


def test_a_damaged_record_is_named(config, tmp_path):
    for name in ("config.json", "run.json"):
        (tmp_path / name).write_text('{"cut')
        opened = open_workdir(tmp_path, config, [], "data-1")
        with pytest.raises(UserError, match=rf"{name} is damaged .*: take another"), opened:
            raise AssertionError
        (tmp_path / name).unlink()


def test_a_config_of_another_version_is_a_sentence(config, tmp_path):
    kept = json.loads(config.to_json())
    for changed in (kept | {"gone": 1}, kept | {"train": kept["train"] | {"steps": "many"}}):
        (tmp_path / "config.json").write_text(json.dumps(changed))
        with pytest.raises(UserError, match=r"config.json is of another version of this program"):
            load_config(tmp_path)


def test_a_damaged_checkpoint_is_no_end(tmp_path):
    record = tmp_path / "checkpoints" / "10" / "progress" / "metadata"
    assert not is_done(tmp_path)
    record.parent.mkdir(parents=True)
    assert not is_done(tmp_path)
    for text, done in (("", False), ("{}", False), ('{"done": true}', True)):
        record.write_text(text)
        assert is_done(tmp_path) == done


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    write_whole(path, "before")

    def killed(*names):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "after")
    assert path.read_text() == "before"
