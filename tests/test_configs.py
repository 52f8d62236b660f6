"""Every config builds; every slip is refused with its field and what would be legal."""

import importlib
import importlib.util
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from configs import check as checks
from configs import schuster1997, vaswani2017
from configs.arguments import parse
from configs.base import MODELS, base_config
from configs.base import TASKS as FIELDS_OF
from configs.check import LEGAL, LEGAL_OF, check
from configs.datasets import DATASETS
from configs.luong2015 import get_config
from configs.vaswani2017 import VARIANTS
from data import classification, labelling
from data.tokenizers import TOKENIZERS
from data.translation import CORPORA
from data.vocabulary import VOCABULARIES
from decoding.beam import LENGTH_PENALTIES
from errors import UserError
from models.attention import ALIGNMENTS, SCORES
from models.cells import CELLS
from models.classifiers import POOLINGS
from models.initializers import INITIALIZERS
from models.readers import READERS, make_reader
from models.taggers import make_tagger
from tasks.classification import CLASSIFIERS
from tasks.registry import TASKS
from tasks.translation import TRANSLATORS
from training.optimizers import OPTIMIZERS, SCHEDULES

FOLDER = Path(__file__).parent.parent / "configs"
HELPERS = {"__init__", "arguments", "base", "check", "datasets", "grid", "recipes"}
FILES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in HELPERS)

REGISTRIES = {
    "task": TASKS,
    "data.source_vocab.kind": VOCABULARIES,
    "data.source_vocab.tokenizer": TOKENIZERS,
    "data.vocab.tokenizer": TOKENIZERS,
    "model.encoder.cell": CELLS,
    "model.cell": CELLS,
    "model.pooling": {"attention", *POOLINGS},
    "model.attention.align": {"none", *ALIGNMENTS},
    "model.attention.score": SCORES,
    "model.init": INITIALIZERS,
    "optimizer.name": OPTIMIZERS,
    "optimizer.schedule": SCHEDULES,
    "decode.length_penalty": LENGTH_PENALTIES,
}


@pytest.mark.parametrize("field", REGISTRIES)
def test_legal_names_are_the_registries(field):
    assert set(LEGAL[field]) == set(REGISTRIES[field])


OF_TASKS = {
    "translation": {"data.corpus": CORPORA, "model.name": TRANSLATORS},
    "labelling": {"data.corpus": labelling.CORPORA, "model.name": {"tagger"}},
    "classification": {"data.corpus": classification.CORPORA, "model.name": CLASSIFIERS},
    "cloze": {"data.corpus": {"cbt"}, "model.name": {"reader"}, "model.reader": READERS},
}


@pytest.mark.parametrize("task", TASKS)
def test_legal_names_of_a_task_are_its_registries(task):
    for field, names in OF_TASKS[task].items():
        assert set(LEGAL_OF[task][field]) == set(names)
    assert set(FIELDS_OF[task]) == set(LEGAL_OF[task]["model.name"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_config_file_loads_and_says_how_to_run_it(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check(module.get_config())
    assert f"--config=configs/{path.name}" in module.__doc__


TRANSLATION_CHOICES = {
    "luong2015": {
        "align": ("global", "local_m", "local_p", "none"),
        "score": ("general", "dot", "concat", "location"),
        "feed": ("yes", "no"),
        "size": ("tiny", "small", "paper"),
    },
    "bahdanau2015": {
        "align": ("global", "local_m", "local_p", "hard"),
        "score": ("concat", "scaled_dot", "location"),
        "size": ("tiny", "small"),
    },
    "sutskever2014": {"reverse": ("yes", "no"), "size": ("tiny", "small", "paper")},
    "cho2014": {"size": ("tiny", "small", "paper")},
    "xu2015": {"attention": ("hard", "soft"), "size": ("tiny", "small", "paper")},
    "mino2017": {"keys": ("split", "zero", "none"), "score": ("general", "concat")},
    "toshniwal2016": {"align": ("global", "local_m", "local_p")},
    "vaswani2017": {
        "size": ("tiny_cpu", "tiny", "spelling", "base", "big"),
        "norm": ("post", "pre"),
    },
}
OTHER_CHOICES = {
    "schuster1997": {
        "network": ("brnn", "merged", "forward", "backward", "tdnn", "mlp"),
        "cell": ("elman", "lstm", "gru"),
    },
    "lin2017": {"pooling": ("attention", "max", "mean", "last"), "size": ("small", "paper")},
    "yang2016": {"size": ("small", "paper")},
    "cui2017": {
        "reader": ("attention_over_attention", "attention_sum"), "size": ("small", "paper"),
    },
}  # fmt: skip


def points(files):
    """All choices together, but sizes, of which one is like another, only by themselves."""
    return [
        (name, ",".join(f"{k}={v}" for k, v in zip(own, values, strict=True)))
        for name, choices in files.items()
        for own in ([k for k in choices if k != "size"], [k for k in choices if k == "size"])
        if own
        for values in itertools.product(*(choices[k] for k in own))
    ]


@pytest.mark.parametrize(("name", "arguments"), points(TRANSLATION_CHOICES), ids=str)
def test_every_translator_builds(name, arguments):
    config = importlib.import_module(f"configs.{name}").get_config(f"data=dates,{arguments}")
    check(config)
    model = TRANSLATORS[config.model.name](config.model, 50, 60, config.data.reverse_source)
    tokens = jnp.ones((1, 3), int)
    shapes = jax.eval_shape(model.init, jax.random.key(0), tokens, tokens > 0, tokens)
    outputs = jax.eval_shape(model.apply, shapes, tokens, tokens > 0, tokens)
    assert outputs.shape == (1, 3, 60)


@pytest.mark.parametrize(("name", "arguments"), points(OTHER_CHOICES), ids=str)
def test_every_other_model_builds(name, arguments):
    config = importlib.import_module(f"configs.{name}").get_config(arguments)
    check(config)
    words, key = jnp.ones((2, 3), int), jax.random.key(0)
    if config.task == "labelling":
        model = make_tagger(config.model, {}, 5)
        inputs, outputs = ({"x": jnp.ones((2, 3, 1))}, words > 0), (2, 3, 5)
        outputs = (2 if config.model.network == "merged" else 1, *outputs)
    elif config.task == "cloze":
        model, inputs, outputs = make_reader(config.model, 50), (words, words), (2, 3)
    else:
        model = CLASSIFIERS[config.model.name](config.model, 50, 5)
        inputs, outputs = (words[..., None] if config.data.documents else words,), (2, 5)
    shapes = jax.eval_shape(model.init, key, *inputs)
    result = jax.eval_shape(model.apply, shapes, *inputs)
    assert (result if config.task == "labelling" else result[0]).shape == outputs


def test_music_is_read_forwards_and_no_other_choice_is_lost():
    assert schuster1997.get_config("data=jsb").model.network == "forward"
    with pytest.raises(UserError, match="network=brnn would see the frames"):
        check(schuster1997.get_config("data=jsb,network=brnn"))


def test_every_config_file_is_among_them():
    assert {path.stem for path in FILES} == {*TRANSLATION_CHOICES, *OTHER_CHOICES}


def test_the_paper_is_the_papers():
    config = get_config("size=paper,data=wmt14_en_de")
    stack = config.model.encoder
    assert (stack.layers, stack.features, stack.embedding, stack.cell) == (4, 1000, 1000, "lstm")
    assert (config.optimizer.name, config.optimizer.learning_rate) == ("sgd", 1.0)
    assert (config.data.batch_size, config.data.max_length) == (128, 50)
    assert config.data.source_vocab.size == config.data.target_vocab.size == 50_000
    assert config.data.reverse_source and config.optimizer.clip_norm == 5.0
    assert (config.model.init, config.model.init_scale) == ("uniform", 0.1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_row_of_table_3_is_a_config(variant):
    config = vaswani2017.get_config(f"data=dates,size=base,variant={variant}")
    check(config)
    assert config.to_dict() != vaswani2017.get_config("data=dates,size=base").to_dict()


FILE_OF = {
    "translation": "luong2015", "labelling": "schuster1997", "classification": "lin2017",
    "cloze": "cui2017",
}  # fmt: skip


@pytest.mark.parametrize(("task", "name"), [(t, n) for t in DATASETS for n in DATASETS[t]])
def test_every_dataset_is_known_to_every_field(task, name):
    config = importlib.import_module(f"configs.{FILE_OF[task]}").get_config(f"data={name}")
    check(config)


def with_field(field):
    """A config whose kind of model has this field."""
    return next(c for c in map(base_config, MODELS) if checks.get(c, field) is not None)


@pytest.mark.parametrize("field", LEGAL)
def test_an_unknown_name_lists_the_known(field):
    config = with_field(field)
    config.update_from_flattened_dict({field: "nonsense"})
    with pytest.raises(UserError) as caught:
        check(config)
    assert f"config.{field}='nonsense'" in str(caught.value)
    assert all(name in str(caught.value) for name in LEGAL[field])


NUMBERS = (*checks.POSITIVE, *checks.NOT_NEGATIVE, *checks.FRACTIONS, *checks.ABOVE_ZERO)


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_out_of_range_is_named(field):
    config = with_field(field)
    wrong = -1 if isinstance(checks.get(config, field), int) else -1.0
    config.update_from_flattened_dict({field: wrong})
    with pytest.raises(UserError, match=f"config.{field}=-1"):
        check(config)


COMBINATIONS = {
    "model.bridge=copy needs equal": {"model.decoder.layers": 3},
    "bridge=backward reads the backward direction": {"model.bridge": "backward"},
    "wiring=luong and config.model.attention.align=none do not fit": {
        "model.attention.align": "none",
    },
    "wiring=cho and config.model.attention.align=global do not fit": {
        "model.wiring": "cho", "model.attention.input_feeding": False,
    },
    "input_feeding=True belongs to wiring=luong": {"model.wiring": "bahdanau"},
    "score=dot needs equal widths": {
        "model.attention.score": "dot", "model.decoder.features": 64, "model.bridge": "dense",
    },
    "max_source=20 cannot rate": {
        "model.attention.score": "location", "model.attention.max_source": 20,
    },
    "key_value=split cannot halve": {
        "model.attention.key_value": "split", "model.encoder.features": 5, "model.bridge": "dense",
    },
    "key_value=zero starts part of a score's matrix": {
        "model.attention.key_value": "zero", "model.attention.score": "dot",
    },
    "doubly_stochastic is for soft attention": {
        "model.attention.align": "hard", "train.doubly_stochastic": 1.0,
    },
    "reverse_source=True says nothing": {
        "data.reverse_source": True, "model.encoder.bidirectional": True,
        "model.encoder.features": 256,
    },
    "accumulation=3 must divide": {"train.accumulation": 3},
    "batch_size=100 must be a multiple": {"data.batch_size": 100},
    "data.name is empty": {"data.corpus": "tfds"},
    "has no meaning for rprop": {"optimizer.name": "rprop", "optimizer.schedule": "cosine"},
    "one of them must say how long": {"train.epochs": 0.0},
    "nbest=3 is more than": {"decode.nbest": 3},
    "temperature=0.7 draws one": {"decode.temperature": 0.7, "decode.beam": 2},
    "top_p=0.0 is out of range": {"decode.top_p": 0.0, "decode.temperature": 1.0},
    "top_k and top_p are for drawing": {"decode.top_k": 5},
    "leave no room for a word": {"decode.max_ratio": 0.0, "decode.max_extra": 0},
    "min_ratio=3.0 is more than": {"decode.min_ratio": 3.0},
    "need attention, which this model has not": {
        "decode.coverage": 0.2, "model.wiring": "plain", "model.attention.align": "none",
        "model.attention.input_feeding": False,
    },
}  # fmt: skip


@pytest.mark.parametrize("message", COMBINATIONS)
def test_impossible_combinations_are_refused(message):
    refused(base_config(), COMBINATIONS[message], message)


OF_TRANSFORMERS = {
    "heads=3 must divide": {"model.heads": 3},
    "key_features=65 is more than a head's 64": {"model.key_features": 65},
    "share_embeddings=True needs one vocabulary": {"data.shared_vocab": False},
    "reverse_source=True says nothing": {"data.reverse_source": True},
    "attention_layer=6 is none of the 6": {"model.attention_layer": 6},
    "max_positions=50 is too few": {"model.positions": "learned", "model.max_positions": 50},
    "model.name=seq2seq has other fields": {"model.name": "seq2seq"},
}


@pytest.mark.parametrize("message", OF_TRANSFORMERS)
def test_impossible_transformers_are_refused(message):
    config = base_config("transformer")
    config.data.shared_vocab = True
    refused(config, OF_TRANSFORMERS[message], message)


OF_OTHERS = {
    "forward_delay=2 is for network=forward or merged": ("tagger", {"model.forward_delay": 2}),
    "backward_delay=2 is for network=backward": (
        "tagger", {"model.backward_delay": 2, "model.network": "forward"},
    ),
    "network=brnn would see the frames": ("tagger", {"data.corpus": "polymusic"}),
    "forward_delay=1 would show": (
        "tagger",
        {"data.corpus": "polymusic", "model.network": "forward", "model.forward_delay": 1},
    ),
    "eval_metric=accuracy is for classes": ("tagger", {"train.eval_metric": "accuracy"}),
    "eval_metric=f1 is for chunks": (
        "tagger", {"train.eval_metric": "f1", "data.corpus": "series_classes"},
    ),
    "data.inputs='poss' is not known": (
        "tagger", {"data.corpus": "columns", "data.inputs": ("word", "poss")},
    ),
    "must have a word and a label": (
        "tagger", {"data.corpus": "columns", "data.columns": ("word", "pos")},
    ),
    "splits.valid is empty: polymusic has": (
        "tagger",
        {"data.corpus": "polymusic", "model.network": "forward", "data.splits.valid": ""},
    ),
    "series makes its own splits": ("tagger", {"data.splits.test": "other"}),
    "must have names of their own": (
        "tagger", {"data.corpus": "columns", "data.columns": ("word", "index", "label")},
    ),
    "data.inputs is empty": ("tagger", {"data.corpus": "columns", "data.inputs": ()}),
    "this corpus comes in words": ("reader", {"data.vocab.tokenizer": "moses"}),
    "documents=True does not fit": ("sentence", {"data.documents": True}),
    "penalty is of the hops": (
        "sentence", {"train.penalty": 1.0, "model.pooling": "max"},
    ),
    "data.label='name' must be a column's number": ("sentence", {"data.label": "name"}),
}  # fmt: skip


@pytest.mark.parametrize("message", OF_OTHERS)
def test_impossible_configs_of_other_tasks_are_refused(message):
    model, changes = OF_OTHERS[message]
    refused(base_config(model), changes, message)


def refused(config, changes, message):
    config.update_from_flattened_dict(changes)
    with pytest.raises(UserError) as caught:
        check(config)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_arguments():
    legal = {"score": ("general", "dot"), "size": ("tiny", "paper")}
    assert parse("", **legal) == {"score": "general", "size": "tiny"}
    assert parse("size=paper", **legal) == {"score": "general", "size": "paper"}
    with pytest.raises(UserError, match="score=dott is not known: score can be general, dot"):
        parse("score=dott", **legal)
    with pytest.raises(UserError, match="score is given twice: dot and general"):
        parse("score=dot,score=general", **legal)
    with pytest.raises(UserError, match="one of the names score, size"):
        parse("scor=dot", **legal)


@pytest.mark.parametrize("name", ["luong2015", "vaswani2017"])
@pytest.mark.parametrize(
    "data, metric", [("dates", "exact"), ("cmudict", "exact"), ("multi30k_de_en", "bleu")]
)
def test_small_models_of_whole_sentences_are_not_chosen_by_exact_match(name, data, metric):
    """It is 0 there at every evaluation."""
    config = importlib.import_module(f"configs.{name}").get_config(f"data={data}")
    assert config.train.eval_metric == metric
