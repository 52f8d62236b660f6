"""Translation: the fields of corpus, training and decoding."""

from collections.abc import Iterator

from configs.schema.common import LABEL_SMOOTHING, metric, vocabulary
from configs.schema.field import Config, Field, Fields, TaskSchema

_SAMPLING = Field(
    0.0,
    "Sample the segmentation of the training text anew for every batch. For kind=unigram: draw it "
    "from p^α, where α is this value (Kudo 2018); smaller values are more random. For kind=bpe: "
    "drop merges with this probability (BPE-dropout, Provilkov 2020). 0: no sampling. With "
    "shared_vocab, the two sides still have separate values.",
    least=0,
)
# Values of data.corpus whose sentence pairs are in files, so that files of word links fit them.
FILE_CORPORA = ("text", "tsv")
_DATA: Fields = {
    "corpus": Field(
        "text",
        "Corpus format: the generated corpus of dates, parallel text files, two-column TSV files, "
        "or a TFDS dataset.",
        ("dates", *FILE_CORPORA, "tfds"),
    ),
    "name": Field("", "For tfds: name of the dataset in the TFDS catalog."),
    "files": Field(
        "{split}.{lang}",
        "File name pattern in data.dir, with the placeholders {split} and {lang}; .gz and .xz are "
        "found too.",
    ),
    "source": Field(
        "en", "Source language: {lang} in data.files, the locale for dates, the feature for tfds."
    ),
    "target": Field("de", "Target language; see source."),
    "alignment": Field(
        "",
        "File name pattern of the gold word alignment of the test split, such as {split}.align; "
        "empty: none.",
    ),
    "alignment_base": Field(
        0, "Number of the first word in the alignment file: 0 or 1.", least=0, most=1
    ),
    "alignment_order": Field(
        "source-target",
        "Order of the two sides of a link in the alignment file.",
        ("source-target", "target-source"),
    ),
    "links": Field(
        "",
        "For train.guided: file name pattern of the word links of the training split, such as "
        "{split}.links, with one sentence pair per line in Pharaoh format (0-0 1-2: source-target, "
        "counted from 0); several patterns separated by spaces: the union of their links; empty: "
        "none.",
    ),
    "several_references": Field(
        False,
        "Treat pairs with the same source as several references for one sentence, and count this "
        "sentence once in metrics.",
    ),
    "seed": Field(0, "For dates: seed of the generated pairs.", least=0),
    "examples": {
        "train": Field(100_000, "For dates: number of training pairs.", least=1),
        "valid": Field(1000, "For dates: number of validation pairs.", least=1),
        "test": Field(1000, "For dates: number of test pairs.", least=1),
    },
    "max_length": Field(
        50, "Training pairs with more tokens than this on either side are dropped.", least=1
    ),
    "source_vocab": {**vocabulary(), "sampling": _SAMPLING},
    "target_vocab": {**vocabulary(), "sampling": _SAMPLING},
    "shared_vocab": Field(
        False, "Use one vocabulary for both languages, with the settings of source_vocab."
    ),
    "reverse_source": Field(False, "Reverse the order of the source tokens (Sutskever 2014)."),
}

_TRAIN: Fields = {
    "eval_metric": metric("bleu", "chrf", "exact"),
    "label_smoothing": LABEL_SMOOTHING,
    "eval_greedily": Field(
        True,
        "Decode the validation split greedily during training; False: use the settings of decode.",
    ),
    "doubly_stochastic": Field(
        0.0,
        "Weight λ of the doubly stochastic penalty (Xu 2015), which encourages attending to every "
        "source token once; 0: none.",
        least=0,
    ),
    "guided": {
        "weight": Field(
            0.0,
            "Weight of the guided alignment loss (Chen 2016), which trains attention towards the "
            "word links of data.links; 0: none.",
            least=0,
        ),
        "unlinked": Field(
            "end",
            "Train the attention of target tokens without links towards the source token `</s>` "
            "(end), or do not train it (ignore).",
            ("end", "ignore"),
        ),
    },
    "diagonal": Field(
        1.0,
        "For local_p: weight of the squared distance between the relative window center, p_t / S, "
        "and the diagonal, (t + ½) / T, where S and T are the lengths of source and target; 0: "
        "only the Gaussian trains p_t, as in the paper.",
        least=0,
    ),
    "reinforce": {
        "weight": Field(1.0, "For hard attention: weight of the REINFORCE term.", least=0),
        "expected": Field(
            0.75,
            "For hard attention: weight of the loss with the expected context of soft attention; "
            "the loss with sampled contexts, including the REINFORCE term and the entropy bonus, "
            "has the remaining weight.",
            least=0,
            most=1,
        ),
        "entropy": Field(0.002, "For hard attention: weight of the entropy bonus.", least=0),
    },
}

DECODE: Fields = {
    "max_ratio": Field(
        2.0, "Maximum output length in tokens: max_ratio × source length + max_extra.", least=0
    ),
    "max_extra": Field(
        10, "Constant part of the maximum output length, in tokens; see max_ratio.", least=0
    ),
    "min_ratio": Field(
        0.0, "Minimum output length, as a multiple of the source length; 0: none.", least=0
    ),
    "batch": Field(64, "Maximum number of sentences that are decoded together.", least=1),
    "beam": Field(1, "Beam width; 1: greedy decoding, or sampling if temperature is set.", least=1),
    "nbest": Field(1, "Number of hypotheses to return per sentence, at most beam.", least=1),
    "length_penalty": Field(
        "none",
        "Divide log p by ((5 + length) / 6)^alpha (gnmt) or length^alpha (average); none: no "
        "length penalty.",
        ("none", "gnmt", "average"),
    ),
    "alpha": Field(0.6, "Exponent alpha of the length penalty.", least=0),
    "coverage": Field(0.0, "Weight β of the coverage penalty (Wu 2016); 0: none.", least=0),
    "temperature": Field(
        0.0, "Sample each token from p^(1/temperature); 0: do not sample.", least=0
    ),
    "top_k": Field(0, "Sample from this many most probable tokens; 0: from all tokens.", least=0),
    "top_p": Field(
        1.0,
        "Sample from the fewest tokens whose total probability reaches this value; 1: from all "
        "tokens.",
        above=0,
        most=1,
    ),
    "seed": Field(0, "Random seed of sampling.", least=0),
    "replace_unknown": Field(
        False,
        "Replace each `<unk>` in the output by the source word with the largest attention weight "
        "(Luong 2015).",
    ),
}


def _rules(config: Config) -> Iterator[str]:
    decode = config.decode
    has_attention = "attention" not in config.model or config.model.attention.align != "none"
    if not has_attention and (decode.coverage or decode.replace_unknown):
        yield (
            "config.decode.coverage and decode.replace_unknown need a model with attention: set "
            "coverage=0 and replace_unknown=False"
        )
    if not has_attention and config.train.doubly_stochastic:
        yield (
            f"config.train.doubly_stochastic={config.train.doubly_stochastic} needs a model with "
            "attention: set it to 0"
        )
    if config.data.alignment and config.data.corpus not in FILE_CORPORA:
        yield (
            f"config.data.alignment={config.data.alignment!r} needs sentence pairs in files: set "
            f"config.data.corpus to {' or '.join(FILE_CORPORA)}, or data.alignment to an empty "
            "string"
        )
    yield from _guided_rules(config, has_attention)
    yield from _sampling_rules(config.data)
    if not decode.max_ratio + decode.max_extra >= 1:
        yield (
            f"config.decode.max_ratio={decode.max_ratio} and max_extra={decode.max_extra} allow no "
            "output: set one of them to 1 or more"
        )
    if decode.min_ratio > decode.max_ratio:
        yield (
            f"config.decode.min_ratio={decode.min_ratio} is more than "
            f"max_ratio={decode.max_ratio}: set it to a smaller value"
        )
    if decode.nbest > decode.beam:
        yield (
            f"config.decode.nbest={decode.nbest} is more than decode.beam={decode.beam}: set "
            f"decode.beam={decode.nbest} or more"
        )
    if (decode.top_k or decode.top_p < 1) and not decode.temperature:
        yield (
            "config.decode.top_k and top_p only affect sampling: also set decode.temperature=1, or "
            "set top_k=0 and top_p=1"
        )
    if decode.temperature and decode.beam > 1:
        yield (
            f"config.decode.temperature={decode.temperature} samples one hypothesis per sentence: "
            "set decode.beam=1, or temperature=0 for beam search"
        )


def _guided_rules(config: Config, has_attention: bool) -> Iterator[str]:
    links, weight = config.data.links, config.train.guided.weight
    if weight and not has_attention:
        yield (
            f"config.train.guided.weight={weight} needs a model with attention: set it to 0 and "
            "data.links to an empty string"
        )
    elif weight and not links:
        yield (
            f"config.train.guided.weight={weight} needs word links: set config.data.links to the "
            "name of their file, such as {split}.links"
        )
    elif links and not weight:
        yield (
            f"config.data.links={links!r} has no effect without a loss: set "
            "config.train.guided.weight, for example to 1"
        )
    if links and config.data.corpus not in FILE_CORPORA:
        yield (
            f"config.data.links={links!r} needs sentence pairs in files: set config.data.corpus to "
            f"{' or '.join(FILE_CORPORA)}, or data.links to an empty string"
        )


def _sampling_rules(data: Config) -> Iterator[str]:
    for side in ("source", "target"):
        vocab = "source_vocab" if data.shared_vocab else f"{side}_vocab"
        kind, sampling = data[vocab].kind, data[f"{side}_vocab"].sampling
        field = f"config.data.{side}_vocab.sampling={sampling}"
        if sampling and kind == "words":
            yield (
                f"{field} needs a vocabulary of SentencePiece subwords: set "
                f"config.data.{vocab}.kind to unigram or bpe, or sampling to 0"
            )
        if sampling >= 1 and kind == "bpe":
            yield (
                f"{field} is a dropout probability for config.data.{vocab}.kind=bpe: set it to a "
                "value below 1, such as 0.1"
            )
        if sampling and data.links:
            yield (
                f"{field} changes the tokens that the word links of config.data.links refer to: "
                "set sampling to 0, or data.links to an empty string and train.guided.weight to 0"
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
