"""Sequence labelling, with the networks of Schuster & Paliwal 1997."""

from collections.abc import Iterator

from configs.schema.common import dropout, metric, pretokenized_rules, recurrent, vocabulary
from configs.schema.field import Config, Field, Fields, ModelSchema, TaskSchema

_DATA: Fields = {
    "corpus": Field(
        "series",
        "Corpus format: the artificial series of Schuster 1997, labelled with numbers (series) or "
        "two classes (series_classes); text in columns; or piano rolls (polymusic).",
        ("series", "series_classes", "columns", "polymusic"),
    ),
    "files": Field(
        "{split}.txt",
        "File name pattern in data.dir, with the placeholder {split}; .gz and .xz are found too. "
        "For polymusic: one .mat file with one variable per split.",
    ),
    "columns": Field(
        ("word", "pos", "label"), "For columns: names of the columns; word and label are required."
    ),
    "inputs": Field(
        ("word",),
        "For columns: inputs of the model. An input is a column, or the suffix or characters of "
        "the word.",
    ),
    "suffix": Field(3, "For the input suffix: number of letters of the suffix.", least=1),
    "vocab": vocabulary(tokenizer="split"),
    "seed": Field(0, "For series and series_classes: seed of the generated sequences.", least=0),
    "examples": {
        "train": Field(
            100, "For series and series_classes: number of training sequences.", least=1
        ),
        "valid": Field(
            20, "For series and series_classes: number of validation sequences.", least=1
        ),
        "test": Field(100, "For series and series_classes: number of test sequences.", least=1),
    },
    "series_length": Field(
        100, "For series and series_classes: number of time steps per sequence.", least=1
    ),
    "max_length": Field(
        500, "Training sequences are split into pieces of at most this many time steps.", least=1
    ),
}

_FIELDS: Fields = {
    "network": Field(
        "brnn",
        "Network: windowed MLP (mlp), time-delay network (tdnn), recurrent network in one "
        "direction (forward or backward), the mean of a forward and a backward network (merged), "
        "or bidirectional recurrent network (brnn).",
        ("mlp", "tdnn", "forward", "backward", "merged", "brnn"),
    ),
    "layers": Field(1, "Number of layers.", least=1, most=200),
    "features": Field(64, "Width of a layer; with brnn, of each direction.", least=1),
    "forward_delay": Field(
        0,
        "For forward and merged: time step t is labelled after reading this many later time steps.",
        least=0,
    ),
    "backward_delay": Field(
        0,
        "For backward and merged: time step t is labelled after reading this many earlier time "
        "steps.",
        least=0,
    ),
    "window": Field(
        10,
        "For the first layer of mlp and every layer of tdnn: number of time steps read on each "
        "side.",
        least=0,
    ),
    "embedding": Field(100, "Width of the word embeddings.", least=1),
    "small_embedding": Field(30, "Width of the embeddings of all other inputs.", least=1),
    "dropout": dropout(0.0),
    **recurrent("lstm"),
}


def _rules(config: Config) -> Iterator[str]:
    """Yield error messages for invalid settings of the corpus, its splits and the metric."""
    data, scored = config.data, config.train.eval_metric
    if data.corpus == "polymusic" and not data.splits.valid:
        yield (
            "config.data.splits.valid is empty, but polymusic cannot hold out training examples: "
            "set it to a variable of the file, as in --config.data.splits.valid=validdata"
        )
    if data.corpus.startswith("series") and any(k != v for k, v in data.splits.items()):
        yield (
            f"config.data.splits={data.splits.to_dict()} is not available for {data.corpus}, whose "
            "splits are train, valid and test: leave data.splits unchanged"
        )
    if scored == "accuracy" and data.corpus in ("series", "polymusic"):
        yield (
            f"config.train.eval_metric=accuracy is not defined for {data.corpus}, which has no "
            "class labels: set config.train.eval_metric=loss"
        )
    if scored == "f1" and data.corpus != "columns":
        yield (
            f"config.train.eval_metric=f1 is not defined for {data.corpus}, which has no chunk "
            "labels: set config.train.eval_metric=loss"
        )
    yield from pretokenized_rules(config)
    if data.corpus == "columns":
        yield from _column_rules(data)


def _column_rules(data: Config) -> Iterator[str]:
    known = {*data.columns, "suffix", "characters"} - {"label"}
    for name in data.inputs:
        if name not in known:
            yield f"config.data.inputs={name!r} is unknown: use {', '.join(sorted(known))}"
    if "label" not in data.columns or "word" not in data.columns:
        yield f"config.data.columns={data.columns} must contain the names word and label: add them"
    reserved = {"length", "index", "line", "suffix", "characters"}
    if reserved & {*data.columns} or len({*data.columns}) < len(data.columns):
        yield (
            f"config.data.columns={data.columns} must not contain duplicates or the reserved names "
            f"{', '.join(sorted(reserved))}: rename these columns"
        )
    if not data.inputs:
        yield (
            "config.data.inputs is empty: set one or more inputs, for example "
            "\"--config.data.inputs=('word',)\""
        )


def _tagger_rules(config: Config) -> Iterator[str]:
    data, model = config.data, config.model
    for direction in ("forward", "backward"):
        delay = model[f"{direction}_delay"]
        if delay and model.network not in (direction, "merged"):
            yield (
                f"config.model.{direction}_delay={delay} has no effect on network={model.network}: "
                f"set config.model.{direction}_delay=0, or set config.model.network to {direction} "
                "or merged"
            )
    if data.corpus == "polymusic" and model.network != "forward":
        yield (
            f"config.model.network={model.network} would read the frames of polymusic that it has "
            "to predict: set config.model.network=forward"
        )
    if data.corpus == "polymusic" and model.forward_delay:
        yield (
            f"with config.model.forward_delay={model.forward_delay}, the network would read the "
            "frames of polymusic that it has to predict: set config.model.forward_delay=0"
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
    title="recurrent network",
)
