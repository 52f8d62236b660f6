"""Tests of sweep files: every point of the provided files has a valid config."""

import json
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import optuna
import pytest
from absl import flags
from ml_collections import config_flags

from configs.grid import grid
from errors import UserError
from sweeping.points import Base, label, load_sweep, short_names
from tasks.registry import make_model
from training.workdir import check_name

FILES = sorted(Path("configs/sweeps").glob("*.py"))


def base_of(file):
    """Return the base config that the command in a sweep file's docstring uses."""
    found = re.search(r"--config=(\S+?)(?::(\S+))?\s", file.read_text())
    given = dict(item.split("=") for item in found[2].split(",")) if found[2] else {}
    return Base(found[1], given, {})


def drawn(space, count=12):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(count):
        trial = study.ask()
        space(trial)
        yield trial.params


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_point_of_the_provided_sweeps_is_valid(file):
    base, sweep = base_of(file), load_sweep(str(file))
    token, built = jnp.ones((1, 3), int), set()
    for point in sweep.points or drawn(sweep.space):
        config = base.config(point, 3)
        assert config.seed == 3
        if "scan" in config.model:
            # With scan, JAX traces one layer instead of all six, so the test is faster.
            config.model.scan = True
            config.model.layers = 2
        # The window size D and dropout change no shape, so one model per combination of the rest
        # is built.
        fields = config.model.to_dict()
        fields.pop("dropout", None)
        fields.get("attention", {}).pop("D", None)
        model = json.dumps(fields, sort_keys=True)
        if model not in built:
            built.add(model)
            made = make_model(config, 20, 20, config.data.reverse_source)
            jax.eval_shape(made.init, jax.random.key(0), token, token > 0, token)
    assert built


def test_the_window_sweep_has_every_score_and_window():
    points = load_sweep("configs/sweeps/luong2015_windows.py").points
    windows = {point["model.attention.D"] for point in points if point["align"] != "global"}
    assert windows == {2, 5, 10, 20} and len(points) == 4 + 2 * 4 * 4


def parsed(arguments, monkeypatch):
    """Return the config that train.py reads from these arguments."""
    values = flags.FlagValues()
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    config_flags.DEFINE_config_file("config", flag_values=values)
    values(["train.py", *arguments])
    return values.config


@pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections calls load_module
@pytest.mark.parametrize(
    "point",
    [
        {"align": "local_p", "model.attention.D": 3, "model.attention.renormalize": True},
        {"name": "mine", "optimizer.learning_rate": 1.25e-05, "score": "dot"},
        {},
    ],
    ids=str,
)
def test_the_flags_of_a_point_give_its_config(point, monkeypatch):
    base = Base("configs/luong2015.py", {"data": "dates"}, {"train.steps": 7, "data.dir": "a b"})
    config = parsed(base.flags(point, 2), monkeypatch)
    assert config.to_json() == base.config(point, 2).to_json()
    assert (config.train.steps, config.seed) == (7, 2)


def test_a_label_lists_the_changes_of_a_point():
    assert label({"score": "dot", "model.attention.D": 5}) == "score=dot,D=5"
    assert label({"name": "a/b", "score": "dot"}) == "a-b"
    assert label({}) == "default"
    both = ["model.encoder.layers", "model.decoder.layers", "data.dir"]
    assert list(short_names(both).values()) == [*both[:2], "dir"]
    long = {f"model.field{i}": "x" * 20 for i in range(9)}
    assert len(label(long)) < 130 and label(long) != label(long | {"model.field8": "y"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [("D=[1]?*\\", "D=-1----"), ("..", "--"), ("\ud800x", "-x"), ("a" * 120, "a" * 120)],
    ids=ascii,
)
def test_a_label_is_the_name_of_a_folder_for_checkpoints(name, expected, tmp_path):
    assert label({"name": name}) == expected
    check_name(tmp_path / label({"name": name}))
    long = label({"name": "ä" * 200})
    (tmp_path / f"0123456789,{long}").mkdir()
    assert long.startswith("ä" * 55 + "-")


def test_a_grid_has_every_combination():
    assert len(list(grid(a=[1, 2], b=["x", "y", "z"]))) == 6


def test_a_point_takes_precedence_over_the_command_line():
    base = Base("configs/luong2015.py", {"score": "dot"}, {"model.attention.D": 4})
    config = base.config({"score": "concat", "model.attention.D": 6}, 0)
    assert (config.model.attention.score, config.model.attention.D) == ("concat", 6)


MISTAKES = {
    "def points():\n    return []": "returned no points",
    "x = 1": "either points\\(\\) or space",
    "def points():\n    yield {'a.b': [1]}": r"a\.b is \[1\]",
    "def points():\n    yield {'a.b': 1}\n    yield {'a.b': 1}": "two points with the label b=1",
    "def points():\n    yield {'a.b': 1 / 0}": "user.py, line 2: ZeroDivisionError",
    "def points():\n    yield 'dot'": "dictionary .*'dot'",
    "def points():\n    yield {'seed': 1}": "seed.*--seeds",
    "from configs.grid import grid\ndef points():\n    yield from grid(cell='gru')": "a list",
}


@pytest.mark.parametrize("text", MISTAKES, ids=MISTAKES.get)
def test_mistakes_in_a_sweep_file_are_user_errors(text, tmp_path):
    path = tmp_path / "user.py"
    path.write_text(text)
    with pytest.raises(UserError, match=MISTAKES[text]):
        load_sweep(str(path))


WRONG = {
    "model.atention.D": (3, "config.model has no field 'atention': did you mean attention?"),
    "score": ("dots", "score=dots is unknown: did you mean dot? use one of general, dot"),
    "model.attention.D": ("x", "model.attention.D is 'x', but must be an integer"),
    "train.steps": (0, "train"),
    "D": (3, "the field of the config is 'model.attention.D'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_point_is_named_in_the_error(name):
    base, (value, message) = Base("configs/luong2015.py", {}, {"train.epochs": 0.0}), WRONG[name]
    with pytest.raises(UserError, match=re.escape(message)) as error:
        base.config({name: value}, 0)
    assert f"the config of the point {label({name: value})} is invalid" in str(error.value)


def test_an_integer_is_accepted_for_a_float_field():
    base = Base("configs/luong2015.py", {}, {})
    assert base.config({"optimizer.learning_rate": 1}, 0).optimizer.learning_rate == 1.0
