"""Declarations of fields, validation, config arguments and error messages."""

import dataclasses

import pytest
from ml_collections import ConfigDict

from configs import reference
from configs.arguments import parse
from configs.base import LOWER_IS_BETTER, base_config, choices, declared_fields
from configs.check import check, check_path
from configs.load import load_config_file
from configs.registry import MODELS, TASKS, resolve
from configs.schema.field import Field
from data import classification, cloze, labelling, translation
from data.tokenizers import TOKENIZERS
from data.vocabulary import VOCABULARIES
from decoding.beam import LENGTH_PENALTIES
from errors import UserError, suggest
from evaluation.metrics import METRICS
from models.attention import ALIGNMENTS
from models.bridges import BRIDGES
from models.cells import CELLS
from models.classifiers import POOLINGS
from models.decoders import DECODERS
from models.initializers import INITIALIZERS
from models.readers import READERS
from models.scores import SCORES
from models.taggers import NETWORKS
from training.optimizers import OPTIMIZERS, SCHEDULES


def valid_config(model):
    """Return a model's default config, with the corpus settings that make the config valid."""
    config = base_config(model)
    if "shared_vocab" in config.data:
        config.data.shared_vocab = model == "transformer"
    if "documents" in config.data:
        config.data.documents = model == "han"
    check(config)
    return config


# Tests of field declarations and registries.

REGISTRIES = {
    "data.source_vocab.kind": VOCABULARIES,
    "data.source_vocab.tokenizer": TOKENIZERS,
    "data.vocab.tokenizer": TOKENIZERS,
    "model.encoder.cell": CELLS,
    "model.decoder.cell": CELLS,
    "model.cell": CELLS,
    "model.network": NETWORKS,
    "model.pooling": POOLINGS,
    "model.reader": READERS,
    "model.bridge": BRIDGES,
    "model.decoder.type": DECODERS,
    "model.attention.align": {"none", *ALIGNMENTS},
    "model.attention.score": SCORES,
    "model.init": INITIALIZERS,
    "optimizer.name": OPTIMIZERS,
    "optimizer.schedule": SCHEDULES,
    "decode.length_penalty": LENGTH_PENALTIES,
}
CORPORA = {
    "translation": translation.CORPORA,
    "labelling": labelling.CORPORA,
    "classification": classification.CORPORA,
    "cloze": cloze.CORPORA,
}


@pytest.mark.parametrize("model", MODELS)
def test_the_best_checkpoint_is_selected_in_the_direction_of_the_metric(model):
    for name in choices(model, "train.eval_metric"):
        assert METRICS[name].higher_is_better == (name not in LOWER_IS_BETTER), name


@pytest.mark.parametrize("model", MODELS)
def test_declared_choices_equal_the_registries(model):
    fields = declared_fields(model)
    for name in fields.keys() & REGISTRIES.keys():
        assert set(fields[name].choices) == set(REGISTRIES[name]), name
    assert set(fields["data.corpus"].choices) == set(CORPORA[MODELS[model].task])


def test_every_registry_belongs_to_a_declared_field():
    declared = {name for model in MODELS for name in declared_fields(model)}
    assert REGISTRIES.keys() <= declared


def test_declarations_refer_to_existing_code():
    for model in MODELS.values():
        assert callable(resolve(model.builder)) and model.task in TASKS
    for task in TASKS.values():
        assert resolve(task.task).loss_unit
        evaluation = resolve(task.evaluation)
        assert callable(evaluation.make_evaluate) and callable(evaluation.report)


@pytest.mark.parametrize("model", MODELS)
def test_every_field_has_help_and_every_number_a_range(model):
    for name, field in declared_fields(model).items():
        assert field.help.strip(), name
        if type(field.default) in (int, float):
            assert field.least is not None or field.above is not None, name
        if field.choices:
            assert field.default in field.choices, name
        assert field.allows(field.default), name


def outside(field):
    """Return invalid values of a field: just outside its bounds, or not among its choices."""
    if type(field.default) not in (int, float):
        return ["nonsense"] if field.choices else []
    tiny = 1 if isinstance(field.default, int) else 1e-9
    return [
        *([field.least - tiny] if field.least is not None else []),
        *([type(field.default)(field.above)] if field.above is not None else []),
        *([field.most + tiny] if field.most is not None else []),
        *([type(field.default)(field.below)] if field.below is not None else []),
    ]


@pytest.mark.parametrize("model", MODELS)
def test_error_for_an_invalid_value_states_the_allowed_values(model):
    refused = 0
    for name, field in declared_fields(model).items():
        for value in outside(field) if name not in ("task", "model.name") else ():
            config = valid_config(model)
            config.update_from_flattened_dict({name: value})
            with pytest.raises(UserError) as caught:
                check(config)
            message = str(caught.value)
            assert f"config.{name}={value!r}" in message and "\n" not in message
            assert field.allowed() in message
            refused += 1
    assert refused > 40


def test_bounds_are_inclusive_or_exclusive():
    inclusive, exclusive = Field(1, "", least=0, most=2), Field(1.0, "", above=0, below=2)
    assert [inclusive.allows(x) for x in (-1, 0, 2, 3)] == [False, True, True, False]
    assert [exclusive.allows(x) for x in (0.0, 0.1, 1.9, 2.0)] == [False, True, True, False]
    assert not exclusive.allows(float("nan"))


def test_the_configuration_reference_is_current():
    assert reference.PAGE.read_text("utf-8") == reference.page(), "run python -m configs.reference"


# Each entry: a model, an invalid combination of fields, and parts of the expected error message.
RULES = [
    ("seq2seq", {"model.decoder.layers": 3}, ["model.bridge=copy", "2 × 512", "3 × 512"]),
    ("seq2seq", {"model.bridge": "backward"}, ["bridge=backward", "bidirectional=True"]),
    ("seq2seq", {"model.attention.align": "none"}, ["decoder.type=luong", "align=none"]),
    ("seq2seq", {"model.decoder.type": "cho", "model.attention.input_feeding": False},
     ["decoder.type=cho", "align=global"]),
    ("seq2seq", {"model.decoder.type": "bahdanau"}, ["input_feeding=True", "bahdanau"]),
    ("seq2seq", {"model.attention.score": "dot", "model.decoder.features": 64,
                 "model.bridge": "dense"}, ["score=dot", "512", "64"]),
    ("seq2seq", {"model.attention.score": "location", "model.attention.max_source": 20},
     ["max_source=20", "max_length=50"]),
    ("seq2seq", {"model.attention.key_value": "split", "model.encoder.features": 5,
                 "model.bridge": "dense"}, ["key_value=split", "5"]),
    ("seq2seq", {"model.attention.key_value": "zero", "model.attention.score": "dot"},
     ["key_value=zero", "dot"]),
    ("seq2seq", {"model.attention.align": "marginal"}, ["align=marginal", "input_feeding=False"]),
    ("seq2seq", {"data.reverse_source": True, "model.encoder.bidirectional": True,
                 "model.encoder.features": 256}, ["reverse_source=True", "bidirectional"]),
    ("seq2seq", {"train.accumulation": 3}, ["accumulation=3", "batch_multiple=8"]),
    ("seq2seq", {"data.batch_size": 100}, ["batch_size=100", "batch_multiple=8"]),
    ("seq2seq", {"data.corpus": "tfds"}, ["data.name", "TFDS"]),
    ("seq2seq", {"optimizer.name": "rprop", "optimizer.schedule": "cosine"},
     ["schedule=cosine", "rprop"]),
    ("seq2seq", {"optimizer.name": "rprop", "optimizer.warmup_steps": 9},
     ["warmup_steps=9", "rprop"]),
    ("seq2seq", {"train.epochs": 0.0}, ["train.steps", "train.epochs"]),
    ("seq2seq", {"decode.nbest": 3}, ["nbest=3", "beam=1"]),
    ("seq2seq", {"decode.temperature": 0.7, "decode.beam": 2}, ["temperature=0.7", "beam=1"]),
    ("seq2seq", {"decode.top_k": 5}, ["top_k", "temperature"]),
    ("seq2seq", {"decode.max_ratio": 0.0, "decode.max_extra": 0}, ["max_ratio=0.0", "max_extra=0"]),
    ("seq2seq", {"decode.min_ratio": 3.0}, ["min_ratio=3.0", "max_ratio=2.0"]),
    ("seq2seq", {"decode.coverage": 0.2, "model.decoder.type": "plain",
                 "model.attention.align": "none", "model.attention.input_feeding": False},
     ["decode.coverage", "attention"]),
    ("seq2seq", {"train.guided.weight": 1.0, "model.decoder.type": "plain",
                 "model.attention.align": "none", "model.attention.input_feeding": False},
     ["guided.weight=1.0", "attention"]),
    ("seq2seq", {"train.doubly_stochastic": 1.0, "model.decoder.type": "plain",
                 "model.attention.align": "none", "model.attention.input_feeding": False},
     ["doubly_stochastic", "attention"]),
    ("seq2seq", {"data.alignment": "{split}.align", "data.corpus": "dates"},
     ["data.alignment='{split}.align'", "data.corpus"]),
    ("transformer", {"train.guided.weight": 0.5}, ["guided.weight=0.5", "data.links"]),
    ("seq2seq", {"data.links": "x.links"}, ["data.links='x.links'", "guided.weight"]),
    ("seq2seq", {"data.links": "x", "train.guided.weight": 1.0, "data.corpus": "dates"},
     ["data.links='x'", "data.corpus"]),
    ("seq2seq", {"data.target_vocab.sampling": 0.1},
     ["target_vocab.sampling=0.1", "data.target_vocab.kind", "unigram or bpe"]),
    ("transformer", {"data.target_vocab.sampling": 0.1},  # with a shared vocabulary
     ["target_vocab.sampling=0.1", "data.source_vocab.kind"]),
    ("seq2seq", {"data.source_vocab.kind": "bpe", "data.source_vocab.sampling": 1.0},
     ["source_vocab.sampling=1.0", "below 1"]),
    ("seq2seq", {"data.source_vocab.sampling": 0.2, "data.source_vocab.kind": "unigram",
                 "data.links": "x", "train.guided.weight": 1.0},
     ["source_vocab.sampling=0.2", "data.links"]),
    ("transformer", {"model.heads": 3}, ["heads=3", "features=512"]),
    ("transformer", {"model.key_features": 65}, ["key_features=65", "64"]),
    ("transformer", {"data.shared_vocab": False}, ["share_embeddings=True", "shared_vocab"]),
    ("transformer", {"data.reverse_source": True}, ["reverse_source=True"]),
    ("transformer", {"model.attention_layer": 6}, ["attention_layer=6", "6"]),
    ("transformer", {"model.attention_head": 8}, ["attention_head=8", "0 to 7"]),
    ("transformer", {"model.positions": "learned", "model.max_positions": 50},
     ["max_positions=50", "max_length=50"]),
    ("transformer", {"model.name": "seq2seq"}, ["model.name=seq2seq", "fields"]),
    ("tagger", {"model.forward_delay": 2}, ["forward_delay=2", "brnn"]),
    ("tagger", {"model.backward_delay": 2, "model.network": "forward"}, ["backward_delay=2"]),
    ("tagger", {"data.corpus": "polymusic"}, ["network=brnn", "network=forward"]),
    ("tagger", {"data.corpus": "polymusic", "model.network": "forward", "model.forward_delay": 1},
     ["forward_delay=1"]),
    ("tagger", {"train.eval_metric": "accuracy"}, ["eval_metric=accuracy", "series"]),
    ("tagger", {"train.eval_metric": "f1", "data.corpus": "series_classes"}, ["eval_metric=f1"]),
    ("tagger", {"data.corpus": "columns", "data.inputs": ("word", "poss")}, ["'poss'", "suffix"]),
    ("tagger", {"data.corpus": "columns", "data.columns": ("word", "pos")}, ["columns", "label"]),
    ("tagger", {"data.corpus": "polymusic", "model.network": "forward", "data.splits.valid": ""},
     ["splits.valid", "polymusic"]),
    ("tagger", {"data.splits.test": "other"}, ["data.splits", "series"]),
    ("tagger", {"data.corpus": "columns", "data.columns": ("word", "index", "label")},
     ["columns", "index"]),
    ("tagger", {"data.corpus": "columns", "data.inputs": ()}, ["data.inputs", "word"]),
    ("reader", {"data.vocab.tokenizer": "moses"}, ["tokenizer=moses", "split"]),
    ("sentence", {"data.documents": True}, ["documents=True"]),
    ("sentence", {"train.penalty": 1.0, "model.pooling": "max"}, ["penalty", "pooling=attention"]),
    ("sentence", {"data.label": "name"}, ["data.label='name'", "column"]),
    ("han", {"data.documents": False}, ["documents=False"]),
    ("sentence", {"data.vocabularies": "keep"}, ["vocabularies=keep", "train.init_from"]),
    ("sentence", {"data.vocabularies": "extend", "train.init_from": "a", "data.vocab.kind": "bpe"},
     ["vocabularies=extend", "data.vocab.kind=bpe", "vocabularies=keep"]),
]  # fmt: skip


@pytest.mark.parametrize(("model", "changes", "facts"), RULES, ids=lambda x: str(x)[:60])
def test_error_for_incompatible_fields(model, changes, facts):
    config = valid_config(model)
    config.update_from_flattened_dict(changes)
    with pytest.raises(UserError) as caught:
        check(config)
    message = str(caught.value)
    assert all(fact in message for fact in facts) and "\n" not in message


def test_several_mistakes_are_reported_on_several_lines():
    config = valid_config("seq2seq")
    config.update_from_flattened_dict({"train.keep": 0, "model.bridge": "bridge"})
    with pytest.raises(UserError) as caught:
        check(config)
    assert len(str(caught.value).splitlines()) == 2


def test_error_for_an_unknown_field_lists_the_known_fields():
    with pytest.raises(
        UserError, match=r"config\.model has no field 'atention': did you mean attention\?"
    ):
        check_path(base_config(), ["model", "atention", "score"])
    assert check_path(base_config(), ["model", "attention", "D"]) == 10


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("train.batch_size", "config.data.batch_size"),
        ("train.batchsize", "config.data.batch_size"),
        ("train.learning_rate", "config.optimizer.learning_rate"),
        ("optimizer.steps", "config.train.steps"),  # although "eps" is similar
        ("train.lr", "config.optimizer.learning_rate"),
        ("batch_size", "config.data.batch_size"),
        ("generation.max_ratio", "config.decode.max_ratio"),
    ],
)
def test_error_for_a_field_of_another_section_names_that_section(path, found):
    with pytest.raises(UserError, match=rf"has no field '\w+': did you mean {found}\? config"):
        check_path(base_config(), path.split("."))


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("BPE", ("words", "bpe"), "bpe"),
        ("Unigrm", ("words", "unigram"), "unigram"),
        ("LR", ("optimizer.learning_rate",), "optimizer.learning_rate"),
        ("dot", ("general", "Dot"), "Dot"),
    ],
)
def test_similar_names_are_found_without_regard_to_case(name, known, found):
    assert suggest(name, known) == f"did you mean {found}? "


# Tests of config arguments and of config files that users write.


def test_arguments_are_parsed_and_checked():
    legal = {"score": ("general", "dot"), "size": ("tiny", "paper")}
    assert parse("", **legal) == {"score": "general", "size": "tiny"}
    assert parse("size=paper", **legal) == {"score": "general", "size": "paper"}
    for text, facts in {
        "score=dott": ["score=dott", "general, dot"],
        "score=dot,score=general": ["score", "twice"],
        "scor=dot": ["'scor=dot'", "score, size"],
        "score": ["score has no value", "score=VALUE"],
    }.items():
        with pytest.raises(UserError) as caught:
            parse(text, **legal)
        assert all(fact in str(caught.value) for fact in facts)


BASE = "from configs.base import base_config\n"
MINE = {  # content of mine.py -> arguments after --config=mine.py:, parts of the error message
    "def get_config()\n    pass\n": ("", ["mine.py, line 1"]),
    "import nonesuch\n": ("", ["mine.py, line 1", "nonesuch"]),
    f"{BASE}def get_config():\n    return base_config()\n": ("size=tiny", ["size=tiny", "mine.py"]),
    f"{BASE}def get_config():\n    c = base_config()\n    c.model.droput = 1\n    return c\n": (
        "", ["mine.py, line 4", "droput"],
    ),
    f"{BASE}def get_config():\n    c = base_config()\n    c.train.batch_size = 1\n    return c\n": (
        "", ["line 4: there is no field 'batch_size': did you mean config.data.batch_size?"],
    ),
    f"{BASE}def get_config():\n    c = base_config()\n    c.train.steps = 'many'\n    return c\n": (
        "", ["mine.py, line 4", "steps"],
    ),
    "def get_config():\n    return {}\n": ("", ["mine.py", "dict"]),
    "def configuration():\n    pass\n": ("", ["mine.py", "get_config"]),
    "def get_config():\n    open('/no/such/file')\n": ("", ["mine.py, line 2", "/no/such/file"]),
    f"{BASE}def get_config():\n    return base_config('seq2sec')\n": ("", ["seq2sec", "seq2seq"]),
    "def get_config():\n    raise SystemExit('no')\n": ("", ["mine.py, line 2", "no"]),
}  # fmt: skip


@pytest.mark.parametrize("text", MINE, ids=lambda text: text.splitlines()[-1].strip()[:30])
def test_a_mistake_in_a_config_file_is_reported_in_one_line(text, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(text)
    arguments, facts = MINE[text]
    with pytest.raises(UserError) as caught:
        load_config_file(str(mine), arguments)
    message = str(caught.value)
    assert all(fact in message for fact in facts) and "\n" not in message


@pytest.mark.parametrize("signature", ["", "arguments", "arguments=''"])
def test_get_config_may_have_a_parameter_or_none(signature, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(f"{BASE}def get_config({signature}):\n    return base_config('reader')\n")
    assert load_config_file(str(mine)).task == "cloze"


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"train.epochs": float("inf")}, ["train.epochs=inf"]),
        ({"optimizer.learning_rate": float("nan")}, ["learning_rate=nan"]),
    ],
)
def test_numbers_must_be_finite(changes, facts):
    config = valid_config("seq2seq")
    config.update_from_flattened_dict(changes)
    with pytest.raises(UserError) as caught:
        check(config)
    assert all(fact in str(caught.value) for fact in facts)


def test_error_for_a_config_that_was_not_built_from_the_declarations():
    with pytest.raises(UserError, match=r"model\.name=None .*seq2seq"):
        check(ConfigDict())
    strange = ConfigDict(valid_config("seq2seq").to_dict())
    with strange.ignore_type():
        strange.train.steps = "5"
    with pytest.raises(UserError, match=r"train\.steps='5' .*int"):
        check(strange)


def test_error_for_a_first_choice_that_is_not_declared():
    with pytest.raises(ValueError, match="elmann"):
        choices("tagger", "model.cell", first="elmann")


def test_declarations_are_immutable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        declared_fields("seq2seq")["seed"].default = 1
