"""Text classification: self-attentive sentence embeddings and hierarchical attention."""

from collections.abc import Iterator

from configs.schema.common import (
    LABEL_SMOOTHING,
    WORD_DROPOUT,
    dropout,
    metric,
    recurrent,
    vocabulary,
)
from configs.schema.field import Config, Field, Fields, ModelSchema, TaskSchema

_DATA: Fields = {
    "corpus": Field(
        "tsv",
        'Corpus format: lines of "label text", TSV files, or a TFDS dataset.',
        ("lines", "tsv", "tfds"),
    ),
    "name": Field("", "For tfds: name of the dataset in the TFDS catalog."),
    "files": Field(
        "{split}.tsv",
        "File name pattern in data.dir, with the placeholder {split}; .gz and .xz are found too.",
    ),
    "label": Field(
        "0", "For tsv: number of the label column, counted from 0; for tfds: name of the feature."
    ),
    "text": Field(
        "1", "For tsv: number of the text column, counted from 0; for tfds: name of the feature."
    ),
    "documents": Field(False, "Split texts into sentences, which hierarchical models require."),
    "max_length": Field(
        400,
        "Maximum number of tokens per text, or per sentence if documents=True; the rest is "
        "truncated.",
        least=1,
    ),
    "max_sentences": Field(
        40,
        "For documents=True: maximum number of sentences per text; the rest is truncated.",
        least=1,
    ),
    "vocab": vocabulary(tokenizer="plain", lowercase=True),
}

_TRAIN: Fields = {
    "eval_metric": metric("accuracy"),
    "label_smoothing": LABEL_SMOOTHING,
    "word_dropout": WORD_DROPOUT,
    "penalty": Field(
        0.0,
        "Weight of the penalty ‖AAᵀ − I‖²_F on the attention weights A, if model.pooling is "
        "attention (Lin 2017 eq. 8); 0: none.",
        least=0,
    ),
}

_SENTENCE: Fields = {
    "layers": Field(1, "Number of recurrent layers.", least=1, most=200),
    "features": Field(300, "Width u of a recurrent layer, in each direction.", least=1),
    "embedding": Field(100, "Width of the token embeddings.", least=1),
    "pooling": Field(
        "attention",
        "Pooling of the recurrent states into one vector: self-attention (attention, Lin 2017), "
        "mean, maximum (max), or the last states (last).",
        ("attention", "mean", "max", "last"),
    ),
    "hops": Field(30, "For pooling=attention: number r of attention hops (rows of A).", least=1),
    "attention_features": Field(
        350, "For pooling=attention: width d_a of the hidden layer of the attention.", least=1
    ),
    "hidden": Field(
        512, "Width of the ReLU layer before the output layer; 0: no such layer.", least=0
    ),
    "dropout": dropout(0.5),
    **recurrent("lstm"),
}

_HAN: Fields = {
    "features": Field(
        50, "Width of the word-level and sentence-level layers, in each direction.", least=1
    ),
    "embedding": Field(200, "Width of the token embeddings.", least=1),
    "attention_features": Field(100, "Width of the context vectors u_w and u_s.", least=1),
    "dropout": dropout(0.0),
    **recurrent("gru_reset_after"),
}


def _rules(config: Config) -> Iterator[str]:
    data = config.data
    if data.corpus == "tsv":
        for name in ("label", "text"):
            if not data[name].isdecimal():
                yield (
                    f"config.data.{name}={data[name]!r} is not a column number: for TSV files, set "
                    f"config.data.{name} to the column number, counted from 0"
                )


def _sentence_rules(config: Config) -> Iterator[str]:
    if config.data.documents:
        yield (
            "config.data.documents=True needs the hierarchical model of configs/yang2016.py: use "
            "that config, or set config.data.documents=False"
        )
    if config.train.penalty and config.model.pooling != "attention":
        yield (
            f"config.train.penalty={config.train.penalty} needs config.model.pooling=attention: "
            "set config.train.penalty=0"
        )


def _han_rules(config: Config) -> Iterator[str]:
    if not config.data.documents:
        yield (
            "config.data.documents=False is incompatible with a hierarchical model: set "
            "config.data.documents=True"
        )
    if config.train.penalty:
        yield (
            f"config.train.penalty={config.train.penalty} has no effect on a hierarchical model: "
            "set config.train.penalty=0"
        )


CLASSIFICATION = TaskSchema(
    name="classification",
    task="tasks.classification:Classification",
    evaluation="evaluation.classification",
    data=_DATA,
    train=_TRAIN,
    rules=_rules,
)
SENTENCE = ModelSchema(
    name="sentence",
    task="classification",
    builder="models.classifiers:make_sentence",
    fields=_SENTENCE,
    rules=_sentence_rules,
    title="self-attentive embedding",
)
HAN = ModelSchema(
    name="han",
    task="classification",
    builder="models.classifiers:make_han",
    fields=_HAN,
    rules=_han_rules,
    title="hierarchical attention network",
)
