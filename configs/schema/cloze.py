"""Cloze reading (Cui 2017, Kadlec 2016)."""

from configs.schema.common import (
    WORD_DROPOUT,
    dropout,
    metric,
    pretokenized_rules,
    recurrent,
    vocabulary,
)
from configs.schema.field import Field, Fields, ModelSchema, TaskSchema

_DATA: Fields = {
    "corpus": Field("cbt", "Corpus format: files of the Children's Book Test.", ("cbt",)),
    "files": Field(
        "{split}.txt",
        "File name pattern in data.dir, with the placeholder {split}; .gz and .xz are found too.",
    ),
    "max_candidates": Field(
        10, "Maximum number of candidates per question; more candidates are an error.", least=1
    ),
    "anonymous": Field(
        "none",
        "Words that get a random id in each question: no words (none), words outside the "
        "vocabulary (unknown), or words outside the vocabulary and all candidates (candidates).",
        ("none", "unknown", "candidates"),
    ),
    "anonymous_ids": Field(
        200,
        "Number of random ids for anonymous words; if a question has more such words, some share "
        "an id.",
        least=1,
    ),
    "vocab": vocabulary(tokenizer="split"),
}

_FIELDS: Fields = {
    "reader": Field(
        "attention_over_attention",
        "Reader: attention over attention (Cui 2017), or attention sum (Kadlec 2016).",
        ("attention_over_attention", "attention_sum"),
    ),
    "layers": Field(1, "Number of recurrent layers.", least=1, most=200),
    "features": Field(256, "Width of a recurrent layer, in each direction.", least=1),
    "embedding": Field(384, "Width of the token embeddings.", least=1),
    "dropout": dropout(0.1),
    **recurrent("gru"),
}

CLOZE = TaskSchema(
    name="cloze",
    task="tasks.cloze:Cloze",
    evaluation="evaluation.cloze",
    data=_DATA,
    train={"eval_metric": metric("accuracy"), "word_dropout": WORD_DROPOUT},
    rules=pretokenized_rules,
)
READER = ModelSchema(
    name="reader",
    task="cloze",
    builder="models.readers:make_reader",
    fields=_FIELDS,
    title="cloze reader",
)
