"""Cloze reading (Cui 2017, Kadlec 2016)."""

from configs.schema.common import (
    WORD_DROPOUT,
    dropout,
    given_words,
    metric,
    recurrent,
    vocabulary,
)
from configs.schema.field import Field, Fields, ModelSchema, TaskSchema

_DATA: Fields = {
    "corpus": Field("cbt", "Format: the Children's Book Test's files.", ("cbt",)),
    "files": Field("{split}.txt", "File names in data.dir; .gz and .xz files are found too."),
    "max_candidates": Field(10, "Largest number of candidates per question.", least=1),
    "anonymous": Field(
        "none",
        "Words that get a random id per question: none, those outside the vocabulary, or those "
        "and the candidates.",
        ("none", "unknown", "candidates"),
    ),
    "anonymous_ids": Field(200, "Number of such ids.", least=1),
    "vocab": vocabulary(tokenizer="split"),
}

_FIELDS: Fields = {
    "reader": Field(
        "attention_over_attention",
        "Attention over attention (Cui 2017), or the attention-sum reader (Kadlec 2016).",
        ("attention_over_attention", "attention_sum"),
    ),
    "layers": Field(1, "Recurrent layers.", least=1),
    "features": Field(256, "Width of a layer, in each direction.", least=1),
    "embedding": Field(384, "Width of word embeddings.", least=1),
    "dropout": dropout(0.1),
    **recurrent("gru"),
}

CLOZE = TaskSchema(
    name="cloze",
    task="tasks.cloze:Cloze",
    evaluation="evaluation.cloze",
    data=_DATA,
    train={"eval_metric": metric("accuracy"), "word_dropout": WORD_DROPOUT},
    rules=given_words,
)
READER = ModelSchema(
    name="reader", task="cloze", builder="models.readers:make_reader", fields=_FIELDS
)
