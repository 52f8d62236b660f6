"""Sequence labelling, and the networks that Schuster & Paliwal 1997 compare."""

from collections.abc import Iterator

from configs.schema.common import dropout, given_words, metric, recurrent, vocabulary
from configs.schema.field import Config, Field, Fields, ModelSchema, TaskSchema

_DATA: Fields = {
    "corpus": Field(
        "series",
        "Format: Schuster 1997's series (values or two classes), columns of text, piano rolls.",
        ("series", "series_classes", "columns", "polymusic"),
    ),
    "files": Field(
        "{split}.txt",
        "File names in data.dir; for polymusic, one .mat file whose variables the splits name.",
    ),
    "columns": Field(("word", "pos", "label"), "For columns: names of a line's columns."),
    "inputs": Field(
        ("word",), "For columns: columns that are read, and suffix and characters of the word."
    ),
    "suffix": Field(3, "Letters of the suffix input.", least=1),
    "vocab": vocabulary(tokenizer="split"),
    "seed": Field(0, "For series: seed of the corpus.", least=0),
    "examples": {
        "train": Field(100, "For series: training sequences.", least=1),
        "valid": Field(20, "For series: validation sequences.", least=1),
        "test": Field(100, "For series: test sequences.", least=1),
    },
    "series_length": Field(100, "For series: time steps per sequence.", least=1),
    "max_length": Field(500, "Longer training sequences are cut into pieces.", least=1),
}

_FIELDS: Fields = {
    "network": Field(
        "brnn",
        "Windowed MLP, time-delay network, recurrent network of one direction, two merged "
        "networks, or the bidirectional network.",
        ("mlp", "tdnn", "forward", "backward", "merged", "brnn"),
    ),
    "layers": Field(1, "Layers.", least=1),
    "features": Field(64, "Width of a layer, in each direction.", least=1),
    "forward_delay": Field(
        0, "For forward and merged: time step t is labelled this many steps later.", least=0
    ),
    "backward_delay": Field(
        0, "For backward and merged: time step t is labelled this many steps earlier.", least=0
    ),
    "window": Field(
        10, "For mlp, and each layer of tdnn: time steps read on either side.", least=0
    ),
    "embedding": Field(100, "Width of word embeddings.", least=1),
    "small_embedding": Field(
        30, "Width of the embeddings of suffixes, characters and other columns.", least=1
    ),
    "dropout": dropout(0.0),
    **recurrent("lstm"),
}


def _rules(config: Config) -> Iterator[str]:
    """Relations of the corpus and what is scored."""
    data, scored = config.data, config.train.eval_metric
    if data.corpus == "polymusic" and not data.splits.valid:
        yield "config.data.splits.valid is empty: polymusic has a validation split, so name it"
    if data.corpus.startswith("series") and any(k != v for k, v in data.splits.items()):
        yield f"config.data.splits={data.splits.to_dict()}: {data.corpus} generates its own splits"
    if scored == "accuracy" and data.corpus in ("series", "polymusic"):
        yield f"config.train.eval_metric=accuracy needs classes: set it to loss for {data.corpus}"
    if scored == "f1" and data.corpus != "columns":
        yield f"config.train.eval_metric=f1 needs corpus=columns: set it to loss for {data.corpus}"
    yield from given_words(config)
    if data.corpus == "columns":
        yield from _column_rules(data)


def _column_rules(data: Config) -> Iterator[str]:
    known = {*data.columns, "suffix", "characters"} - {"label"}
    for name in data.inputs:
        if name not in known:
            yield f"config.data.inputs={name!r} is not known: use {', '.join(sorted(known))}"
    if "label" not in data.columns or "word" not in data.columns:
        yield f"config.data.columns={data.columns} must include word and label"
    reserved = {"length", "index", "line", "suffix", "characters"}
    if reserved & {*data.columns} or len({*data.columns}) < len(data.columns):
        yield (
            f"config.data.columns={data.columns} must be different names, and none of "
            f"{', '.join(sorted(reserved))}"
        )
    if not data.inputs:
        yield "config.data.inputs is empty: name at least word"


def _tagger_rules(config: Config) -> Iterator[str]:
    data, model = config.data, config.model
    for direction in ("forward", "backward"):
        delay = model[f"{direction}_delay"]
        if delay and model.network not in (direction, "merged"):
            yield (
                f"config.model.{direction}_delay={delay} needs network={direction} or merged: set "
                f"it to 0 for {model.network}"
            )
    if data.corpus == "polymusic" and model.network != "forward":
        yield (
            f"config.model.network={model.network} would see the frames that it has to predict: "
            "polymusic needs network=forward"
        )
    if data.corpus == "polymusic" and model.forward_delay:
        yield (
            f"config.model.forward_delay={model.forward_delay} would show the frames that have to "
            "be predicted: set it to 0"
        )


LABELLING = TaskSchema(
    name="labelling",
    task="tasks.labelling:Labelling",
    evaluation="evaluation.labelling",
    data=_DATA,
    train={"eval_metric": metric("accuracy", "f1")},
    rules=_rules,
)
TAGGER = ModelSchema(
    name="tagger",
    task="labelling",
    builder="models.taggers:make_tagger",
    fields=_FIELDS,
    rules=_tagger_rules,
)
