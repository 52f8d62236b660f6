"""Translation: fields of the corpus, of training and of decoding."""

from collections.abc import Iterator

from configs.schema.common import LABEL_SMOOTHING, metric, vocabulary
from configs.schema.field import Config, Field, Fields, TaskSchema

_DATA: Fields = {
    "corpus": Field(
        "text",
        "Format: the embedded dates, parallel text files, two-column TSV files, or TFDS.",
        ("dates", "text", "tsv", "tfds"),
    ),
    "name": Field("", "For tfds: name in the TFDS catalogue."),
    "files": Field("{split}.{lang}", "File names in data.dir; .gz and .xz files are found too."),
    "source": Field("en", "Source language."),
    "target": Field("de", "Target language."),
    "alignment": Field("", "File of the test split's gold word links, such as {split}.align."),
    "alignment_base": Field(0, "Number of the first word in that file: 0 or 1.", least=0, most=1),
    "alignment_order": Field(
        "source-target",
        "Which side of a link comes first.",
        ("source-target", "target-source"),
    ),
    "several_references": Field(
        False, "Pairs with equal sources are references of one sentence, which is scored once."
    ),
    "seed": Field(0, "For dates: seed of the corpus.", least=0),
    "examples": {
        "train": Field(100_000, "For dates: training examples.", least=1),
        "valid": Field(1000, "For dates: validation examples.", least=1),
        "test": Field(1000, "For dates: test examples.", least=1),
    },
    "max_length": Field(50, "Training pairs with more tokens on a side are dropped.", least=1),
    "source_vocab": vocabulary(),
    "target_vocab": vocabulary(),
    "shared_vocab": Field(False, "One vocabulary for both sides, as source_vocab describes it."),
    "reverse_source": Field(False, "Read the source from its end (Sutskever 2014)."),
}

_TRAIN: Fields = {
    "eval_metric": metric("bleu", "chrf", "exact"),
    "label_smoothing": LABEL_SMOOTHING,
    "eval_greedily": Field(True, "Decode the validation split greedily; else as decode says."),
    "doubly_stochastic": Field(
        0.0, "Weight λ of Xu 2015's penalty: every source token should be attended once.", least=0
    ),
    "reinforce": {
        "weight": Field(1.0, "For hard attention: weight of the REINFORCE term.", least=0),
        "entropy": Field(0.002, "For hard attention: weight of the entropy bonus.", least=0),
    },
}

DECODE: Fields = {
    "max_ratio": Field(
        2.0, "The longest output is max_ratio × source length + max_extra.", least=0
    ),
    "max_extra": Field(
        10, "Tokens that the longest output may have beyond max_ratio × source length.", least=0
    ),
    "min_ratio": Field(0.0, "Shortest output, as a multiple of the source length.", least=0),
    "batch": Field(64, "Largest number of sentences decoded together.", least=1),
    "beam": Field(1, "Hypotheses per sentence; 1: greedy decoding.", least=1),
    "nbest": Field(1, "Hypotheses per sentence that are returned.", least=1),
    "length_penalty": Field(
        "none",
        "Division of log p by length^alpha (average) or ((5 + length) / 6)^alpha (gnmt).",
        ("none", "gnmt", "average"),
    ),
    "alpha": Field(0.6, "Exponent of the length penalty.", least=0),
    "coverage": Field(0.0, "Weight β of the coverage penalty (Wu 2016).", least=0),
    "temperature": Field(
        0.0, "Sample from p^(1/temperature); 0: the most probable token.", least=0
    ),
    "top_k": Field(0, "Sample from this many most probable tokens; 0: from all.", least=0),
    "top_p": Field(
        1.0, "Sample from the fewest tokens with this total probability.", above=0, most=1
    ),
    "seed": Field(0, "Seed of the samples.", least=0),
    "replace_unknown": Field(
        False, "Replace each <unk> by the source word it attends to most (Luong 2015)."
    ),
}


def _rules(config: Config) -> Iterator[str]:
    decode = config.decode
    has_attention = "attention" not in config.model or config.model.attention.align != "none"
    if not has_attention and (decode.coverage or decode.replace_unknown):
        yield (
            "config.decode.coverage and decode.replace_unknown need a model with attention: set "
            "them to 0 and False"
        )
    if not decode.max_ratio + decode.max_extra >= 1:
        yield (
            f"config.decode.max_ratio={decode.max_ratio} and max_extra={decode.max_extra} allow no "
            "output: set one of them to 1 or more"
        )
    if decode.min_ratio > decode.max_ratio:
        yield (
            f"config.decode.min_ratio={decode.min_ratio} is more than "
            f"max_ratio={decode.max_ratio}: make it smaller"
        )
    if decode.nbest > decode.beam:
        yield (
            f"config.decode.nbest={decode.nbest} is more than decode.beam={decode.beam}: use a "
            "beam at least as wide"
        )
    if (decode.top_k or decode.top_p < 1) and not decode.temperature:
        yield (
            "config.decode.top_k and top_p have an effect on sampling only: set "
            "decode.temperature=1 too, or leave them out"
        )
    if decode.temperature and decode.beam > 1:
        yield (
            f"config.decode.temperature={decode.temperature} samples one hypothesis per sentence: "
            "set decode.beam=1, or temperature=0 for beam search"
        )


TRANSLATION = TaskSchema(
    name="translation",
    task="tasks.translation:Translation",
    evaluation="evaluation.translation",
    data=_DATA,
    train=_TRAIN,
    sections={"decode": DECODE},
    rules=_rules,
)
