import json
import os
import subprocess
import sys

import pytest

from errors import UserError
from tests.conftest import tiny_config
from tests.programs import ROOT
from training.optimizers import SCHEDULES, make_schedule
from training.restore import restore_runs
from training.workdir import (
    LENGTH_SCHEDULES,
    check_workdir,
    is_done,
    load_config,
    open_workdir,
    write_status,
)


@pytest.fixture
def config(cache):
    return tiny_config(cache)


def test_two_runs_in_one_workdir_are_refused(config, tmp_path):
    refused = pytest.raises(UserError, match=rf"{tmp_path} is in use by process {os.getpid()} on")
    again = open_workdir(tmp_path, config, [], "data-1")
    with open_workdir(tmp_path, config, [], "data-1"), refused, again:
        raise AssertionError
    # The first run has ended, so another one may start in the same workdir.
    with open_workdir(tmp_path, config, [], "data-1"):
        assert len(json.loads((tmp_path / "run.json").read_text())) == 2


def test_another_config_is_refused_but_not_another_mesh(config, tmp_path):
    with open_workdir(tmp_path, config, [], "data-1"):
        pass
    config.mesh.state_shards = 4
    check_workdir(tmp_path, config)
    config.seed = 1
    with pytest.raises(UserError, match=r"another config \(seed: 0 there, 1 here\)"):
        check_workdir(tmp_path, config)


def test_a_run_can_get_more_training_steps(config, tmp_path):
    config.optimizer.schedule = "constant"
    with open_workdir(tmp_path, config, [], "data-1"):
        pass
    config.train.steps += 1
    with open_workdir(tmp_path, config, ["--config.train.steps=7"], "data-1"):
        assert load_config(tmp_path, signed=True).train.steps == config.train.steps
    assert len(json.loads((tmp_path / "run.json").read_text())) == 2
    config.train.steps -= 1
    with pytest.raises(UserError, match=r"another config \(train\.steps: 7 there, 6 here\)"):
        check_workdir(tmp_path, config)
    config.train.steps, config.seed = 9, 1
    with pytest.raises(UserError, match=r"seed: 0 there, 1 here; train\.steps: 7 there, 9"):
        check_workdir(tmp_path, config)
    config.train.steps, config.seed = 0, 0
    with pytest.raises(UserError, match=r"train\.steps: 7 there, 0 here"):
        check_workdir(tmp_path, config)


def test_a_run_can_get_more_epochs_unless_it_has_a_number_of_steps(config, tmp_path):
    config.optimizer.schedule = "halving"
    for name, steps in (("epochs", 0), ("steps", 6)):
        config.train.update({"steps": steps, "epochs": 1.0})
        with open_workdir(tmp_path / name, config, [], "data-1"):
            pass
        config.train.epochs = 2.0
        if steps:
            with pytest.raises(UserError, match=r"train\.epochs: 1\.0 there, 2\.0 here"):
                check_workdir(tmp_path / name, config)
        else:
            check_workdir(tmp_path / name, config)


def test_a_schedule_that_depends_on_the_number_of_steps_is_not_extended(config, tmp_path):
    config.optimizer.schedule = "cosine"
    with open_workdir(tmp_path, config, [], "data-1"):
        pass
    config.train.steps += 1
    with pytest.raises(UserError, match=rf"=cosine\) depends .* --init_from={tmp_path}@last"):
        check_workdir(tmp_path, config)
    for schedule in SCHEDULES:
        config.optimizer.schedule = schedule
        rates = {float(make_schedule(config.optimizer, 3, steps)(3)) for steps in (4, 8)}
        assert (len(rates) > 1) == (schedule in LENGTH_SCHEDULES)


def test_a_workdir_that_cannot_be_written_is_refused(config, tmp_path):
    (tmp_path / "file").write_text("")
    refused = pytest.raises(UserError, match=r"cannot write to .*file: File exists")
    with refused, open_workdir(tmp_path / "file", config, [], "data-1"):
        raise AssertionError


def test_a_corrupt_json_file_is_named(config, tmp_path):
    for name in ("config.json", "run.json"):
        (tmp_path / name).write_text('{"cut')
        opened = open_workdir(tmp_path, config, [], "data-1")
        with pytest.raises(UserError, match=rf"{tmp_path}/{name} is corrupt"), opened:
            raise AssertionError
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"gone": 1}, "this version has no field train.gone"),
        ({"steps": "many"}, "the value 'many' of train.steps is a string instead of an integer"),
        ({"steps": 4.0}, "the value 4.0 of train.steps is a number instead of an integer"),
        ({"steps": True}, "of train.steps is true or false instead of an integer"),
        ({"ema": None}, "the value None of train.ema is null instead of a number"),
        ({"guided": [1]}, "the value [1] of train.guided is a list instead of an object"),
        ({"ema": 10**400}, "is too large for a floating-point number"),
        ({"steps": -1}, "config.train.steps=-1 is out of range"),
    ],
)
def test_a_config_that_this_version_cannot_use_is_one_message(change, problem, config, tmp_path):
    saved = json.loads(config.to_json())
    saved["train"] |= change
    path = tmp_path / "config.json"
    path.write_text(json.dumps(saved))
    with pytest.raises(UserError) as caught:
        load_config(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{path} is damaged, or was written by another version ")
    assert problem in message and "\n" not in message and "restore it from a backup" in message


def test_a_folder_without_a_run_is_reported_with_its_flag(tmp_path, mesh):
    with pytest.raises(UserError, match=r"no config\.json: set --reverse_workdir to a folder"):
        restore_runs([tmp_path], mesh, ["best"], "--reverse_workdir")


def test_a_run_is_done_while_its_final_checkpoint_exists(tmp_path):
    assert not is_done(tmp_path)
    final = tmp_path / "checkpoints" / "10"
    final.mkdir(parents=True)
    write_status(tmp_path, 0, None)
    assert not is_done(tmp_path)
    write_status(tmp_path, 10, final)
    assert is_done(tmp_path)
    final.rename(tmp_path / "lost")
    assert not is_done(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"step": 10, "done"', '{"done": true}'])
def test_a_corrupt_status_is_not_done(tmp_path, text):
    (tmp_path / "status.json").write_text(text)
    assert not is_done(tmp_path)


def test_importing_workdir_does_not_import_jax():
    """The compilation cache must be configured before JAX is imported."""
    program = "import sys, training.workdir; print('jax' in sys.modules, 'orbax' in sys.modules)"
    command = [sys.executable, "-c", program]
    assert (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout == "False False\n"
    )
