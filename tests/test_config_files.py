"""Tests of the config files in configs/: arguments, sizes, corpora and docstrings."""

import importlib
import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from configs.base import choices
from configs.check import check, check_path
from configs.datasets import DATASETS
from configs.load import load_config_file
from configs.schema.seq2seq import MARGINALIZING
from configs.vaswani2017 import VARIANTS
from errors import UserError
from tasks.registry import make_model

FILES = sorted((Path(__file__).parent.parent / "configs").glob("*[0-9].py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_config_file_is_valid_and_documents_its_command(path):
    check(load_config_file(str(path)))
    assert f"--config=configs/{path.name}" in path.read_text("utf-8")


ARGUMENTS = {
    "luong2015": ["align", "score"], "bahdanau2015": ["align", "score"], "mino2017": ["keys"],
    "sutskever2014": ["reverse"], "cho2014": [], "xu2015": ["attention"],
    "toshniwal2016": ["align"], "vaswani2017": ["norm"], "schuster1997": ["network", "cell"],
    "lin2017": ["pooling"], "yang2016": ["cell"], "cui2017": ["reader"], "lake2018": ["model"],
}  # fmt: skip
ALIGN = choices("seq2seq", "model.attention.align")
SCORE = choices("seq2seq", "model.attention.score")
# Fields whose values a docstring may leave to docs/configuration.md, if it names them.
FIELDS = {"align": "model.attention.align", "score": "model.attention.score", "cell": "model.cell"}
VALUES = {
    "align": ALIGN, "score": SCORE, "keys": choices("seq2seq", "model.attention.key_value"),
    "reverse": ("yes", "no"), "attention": ("hard", "soft"), "norm": ("post", "pre"),
    "network": choices("tagger", "model.network"), "cell": choices("tagger", "model.cell"),
    "pooling": choices("sentence", "model.pooling"), "reader": choices("reader", "model.reader"),
    "model": (
        "lstm", "lstm_attention", "gru_attention", "sutskever", "cho", "bahdanau", "luong",
        "local_m", "local_p", "hard", "marginal", "mino", "transformer",
    ),
}  # fmt: skip


def test_every_config_file_is_in_the_table():
    assert {path.stem for path in FILES} == {*ARGUMENTS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_docstring_lists_the_values_of_its_arguments_or_their_field(path):
    listed = path.read_text("utf-8").split('"""')[1].partition("Arguments")[2]
    for name in ARGUMENTS[path.stem]:
        if f"({FIELDS.get(name)})" in listed:
            continue
        for value in VALUES[name]:
            try:
                load_config_file(str(path), f"{name}={value}")
            except UserError as error:
                if f"{name}={value} is unknown" in str(error):
                    continue  # this config file does not accept the value
            assert re.search(rf"\b{value}\b", listed), f"{name}={value}"


def points():
    """Yield each config file with all combinations of its ARGUMENTS, and with every model size.

    Combinations with an alignment that a config file does not offer are omitted, and some of
    luong2015.py have no input feeding.
    """
    omitted = {
        "bahdanau2015": {"none", *MARGINALIZING},
        "toshniwal2016": {*MARGINALIZING},
    }
    for name, arguments in ARGUMENTS.items():
        for values in itertools.product(*(VALUES[a] for a in arguments)):
            if omitted.get(name, set()).intersection(values):
                continue
            given = ",".join(f"{a}={v}" for a, v in zip(arguments, values, strict=True))
            feeds = name != "luong2015" or {*MARGINALIZING}.isdisjoint(values)
            yield name, given if feeds else f"{given},feed=no"
        for size in getattr(importlib.import_module(f"configs.{name}"), "SIZES", ()):
            yield name, f"size={size}"


@pytest.mark.parametrize(("name", "arguments"), [*points()], ids=str)
def test_every_combination_of_arguments_builds_a_model(name, arguments):
    config = importlib.import_module(f"configs.{name}").get_config(arguments)
    check(config)
    shapes, outputs = abstract_outputs(config)
    assert all(shape > 0 for shape in outputs) and jax.tree.leaves(shapes)


def test_bahdanau2015_needs_attention():
    with pytest.raises(UserError, match="align=none is unknown: use one of global, local_m"):
        load_config_file("configs/bahdanau2015.py", "align=none")


def abstract_outputs(config):
    """Return the shapes of a model's parameters and of its output, without running the model."""
    words, key = jnp.ones((2, 3), int), jax.random.key(0)
    if config.task == "translation":
        model = make_model(config, 50, 60, config.data.reverse_source)
        inputs = (words, words > 0, words)
    elif config.task == "labelling":
        model, inputs = make_model(config, {}, 5), ({"x": jnp.ones((2, 3, 1))}, words > 0)
    elif config.task == "cloze":
        model, inputs = make_model(config, 50), (words, words)
    else:
        model = make_model(config, 50, 5)
        inputs = (words[..., None] if config.data.documents else words,)
    params = jax.eval_shape(model.init, key, *inputs)
    result = jax.eval_shape(model.apply, params, *inputs)
    return params, (result[0] if isinstance(result, tuple) else result).shape


def test_sizes_have_the_same_names_in_all_config_files():
    for path in FILES:
        sizes = getattr(importlib.import_module(f"configs.{path.stem}"), "SIZES", {})
        assert {*sizes} <= {"tiny", "small", "paper"}, path.stem


def test_size_paper_has_the_hyperparameters_of_the_paper():
    config = load_config_file("configs/luong2015.py", "size=paper,data=wmt14_en_de")
    stack = config.model.encoder
    assert (stack.layers, stack.features, stack.embedding, stack.cell) == (4, 1000, 1000, "lstm")
    assert (config.optimizer.name, config.optimizer.learning_rate) == ("sgd", 1.0)
    assert (config.data.batch_size, config.data.max_length) == (128, 50)
    assert config.data.source_vocab.size == config.data.target_vocab.size == 50_000
    assert config.data.reverse_source and config.optimizer.clip_norm == 5.0
    assert (config.model.init, config.model.init_scale) == ("uniform", 0.1)


def test_lake2018_trains_all_models_with_one_recipe():
    for size in ("tiny", "small", "paper"):
        for field in ("train.steps", "train.eval_every", "train.eval_metric", "data.batch_size"):
            values = set()
            for model in VALUES["model"]:
                config = load_config_file("configs/lake2018.py", f"model={model},size={size}")
                values.add(check_path(config, field.split(".")))
            assert len(values) == 1, (size, field)
    config = load_config_file("configs/lake2018.py", "size=paper")
    stack = config.model.decoder
    assert (stack.layers, stack.features, stack.cell, config.model.dropout) == (2, 200, "lstm", 0.5)
    assert (config.data.batch_size, config.train.steps) == (1, 100_000)
    assert (config.optimizer.learning_rate, config.optimizer.clip_norm) == (0.001, 5.0)
    config = load_config_file("configs/lake2018.py", "model=gru_attention,size=paper")
    assert (config.model.decoder.features, config.model.decoder.type) == (50, "bahdanau")


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_of_table_3_changes_the_base_model(variant):
    base = load_config_file("configs/vaswani2017.py", "data=dates,size=paper")
    changed = load_config_file("configs/vaswani2017.py", f"data=dates,size=paper,variant={variant}")
    check(changed)
    assert changed.to_dict() != base.to_dict()


FILE_OF = {
    "translation": "luong2015", "labelling": "schuster1997", "classification": "lin2017",
    "cloze": "cui2017",
}  # fmt: skip


@pytest.mark.parametrize(("task", "name"), [(t, n) for t in DATASETS for n in DATASETS[t]])
def test_every_dataset_gives_a_valid_config(task, name):
    check(importlib.import_module(f"configs.{FILE_OF[task]}").get_config(f"data={name}"))


def test_music_uses_a_forward_network():
    assert load_config_file("configs/schuster1997.py", "data=jsb").model.network == "forward"


@pytest.mark.parametrize("name", ["luong2015", "vaswani2017"])
@pytest.mark.parametrize(
    "data, metric", [("dates", "exact"), ("cmudict", "exact"), ("multi30k_de_en", "bleu")]
)
def test_exact_match_selects_checkpoints_only_for_short_text(name, data, metric):
    config = importlib.import_module(f"configs.{name}").get_config(f"data={data}")
    assert config.train.eval_metric == metric
