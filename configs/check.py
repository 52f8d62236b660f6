"""What a config may say. Checked before any data is read, with the field and its legal values.

The names are those under which the registries of the house are entered (a test compares them);
they stand here as well so that a slip is answered without importing JAX.
"""

from collections.abc import Iterator

from configs.base import MODELS, TASKS, Config
from errors import UserError

_TOKENIZERS = ("moses", "unicode", "plain", "split", "bpe", "characters")
_CELLS = ("elman", "lstm", "gru")

LEGAL: dict[str, tuple[str, ...]] = {
    "task": tuple(TASKS),
    "data.source_vocab.kind": ("words", "unigram", "bpe"),
    "data.target_vocab.kind": ("words", "unigram", "bpe"),
    "data.vocab.kind": ("words", "unigram", "bpe"),
    "data.source_vocab.tokenizer": _TOKENIZERS,
    "data.target_vocab.tokenizer": _TOKENIZERS,
    "data.vocab.tokenizer": _TOKENIZERS,
    "data.alignment_order": ("source-target", "target-source"),
    "data.batch_unit": ("sentences", "tokens"),
    "model.network": ("mlp", "tdnn", "forward", "backward", "merged", "brnn"),
    "model.cell": _CELLS,
    "model.pooling": ("attention", "mean", "max", "last"),
    "model.encoder.cell": _CELLS,
    "model.decoder.cell": _CELLS,
    "model.bridge": ("copy", "dense", "backward"),
    "model.wiring": ("plain", "cho", "luong", "bahdanau"),
    "model.attention.align": ("none", "global", "local_m", "local_p", "hard"),
    "model.attention.score": ("dot", "scaled_dot", "general", "concat", "location"),
    "model.attention.key_value": ("none", "split", "zero"),
    "model.norm": ("post", "pre"),
    "model.positions": ("sinusoidal", "learned"),
    "model.init": ("uniform", "normal", "xavier", "bahdanau"),
    "model.dtype": ("float32", "bfloat16"),
    "optimizer.name": ("sgd", "momentum", "adam", "adamw", "adadelta", "rmsprop", "rprop"),
    "optimizer.schedule": ("constant", "halving", "inverse_sqrt", "cosine", "plateau"),
    "train.loss_per": ("token", "sentence"),
    "decode.length_penalty": ("none", "gnmt", "average"),
}
LEGAL_OF: dict[str, dict[str, tuple[str, ...]]] = {  # names that mean something to one task
    "translation": {
        "data.corpus": ("dates", "text", "tsv", "tfds"),
        "model.name": tuple(TASKS["translation"]),
        "train.eval_metric": ("loss", "bleu", "chrf", "exact"),
    },
    "labelling": {
        "data.corpus": ("series", "series_classes", "columns", "polymusic"),
        "model.name": tuple(TASKS["labelling"]),
        "train.eval_metric": ("loss", "accuracy", "f1"),
    },
    "classification": {
        "data.corpus": ("lines", "tsv", "tfds"),
        "model.name": tuple(TASKS["classification"]),
        "train.eval_metric": ("loss", "accuracy"),
    },
    "cloze": {
        "data.corpus": ("cbt",),
        "data.anonymous": ("none", "unknown", "candidates"),
        "model.name": tuple(TASKS["cloze"]),
        "model.reader": ("attention_over_attention", "attention_sum"),
        "train.eval_metric": ("loss", "accuracy"),
    },
}

# Fields that count something, so are at least 1, and fields that are at least 0.
POSITIVE = (
    "data.holdout", "data.max_length", "data.buckets", "data.batch_size", "data.batch_multiple",
    "data.examples.train", "data.examples.valid", "data.examples.test",
    "data.source_vocab.size", "data.target_vocab.size", "data.vocab.size",
    "data.suffix", "data.series_length", "data.max_sentences", "data.max_candidates",
    "data.anonymous_ids",
    "model.encoder.layers", "model.encoder.features", "model.encoder.embedding",
    "model.decoder.layers", "model.decoder.features", "model.decoder.embedding",
    "model.decoder.maxout", "model.attention.max_source", "model.attention.D",
    "model.embedding", "model.small_embedding", "model.hops", "model.attention_features",
    "model.layers", "model.features", "model.heads", "model.feed_forward", "model.max_positions",
    "train.accumulation", "train.eval_every", "train.keep", "mesh.state_shards",
    "train.log_every", "train.max_skipped", "decode.beam",
    "decode.nbest", "decode.batch",
)  # fmt: skip
NOT_NEGATIVE = (
    "seed", "data.seed", "data.alignment_base", "train.steps",
    "optimizer.learning_rate", "optimizer.clip_norm", "optimizer.warmup_steps",
    "optimizer.weight_decay", "optimizer.plateau_patience", "train.epochs", "train.patience",
    "train.samples", "train.doubly_stochastic", "train.reinforce.weight",
    "train.reinforce.entropy", "train.penalty", "model.forward_delay", "model.backward_delay",
    "model.window", "model.hidden", "model.attention.sigma", "model.key_features",
    "decode.max_ratio", "decode.max_extra", "decode.min_ratio", "decode.alpha", "decode.coverage",
    "decode.temperature", "decode.top_k", "decode.seed",
)  # fmt: skip
ABOVE_ZERO = ("model.init_scale", "optimizer.halve_every", "optimizer.eps")
FRACTIONS = (  # from 0 to under 1
    "model.dropout", "model.attention_dropout", "train.word_dropout", "train.label_smoothing",
    "train.ema", "optimizer.momentum", "optimizer.b1", "optimizer.b2", "optimizer.rho",
    "optimizer.plateau_factor",
)  # fmt: skip


def check(config: Config) -> None:
    """Raises a UserError with every fault of `config`, one a line."""
    faults = list(_faults_of_fields(config))
    if not faults:  # combinations of unknown things mean nothing
        faults = [*_FAULTS_OF[config.model.name](config), *_faults_of_training(config)]
        if "decode" in config:
            faults += _faults_of_decoding(config)
    if faults:
        raise UserError("\n".join(faults))


def get(config: Config, path: str):
    """The value of a dotted field; None where this config's kind of model has no such field."""
    for name in path.split("."):
        if name not in config:
            return None
        config = config[name]
    return config


def _faults_of_fields(config: Config) -> Iterator[str]:
    name = config.model.name
    if name in MODELS and config.model.keys() != MODELS[name]().keys():
        yield (
            f"config.model.name={name} has other fields than the config file's model: "
            "choose the model by its file in configs/"
        )
    for path, legal in {**LEGAL, **LEGAL_OF.get(config.task, {})}.items():
        if (value := get(config, path)) is not None and value not in legal:
            yield f"config.{path}={value!r} is not known: it can be {', '.join(legal)}"
    for paths, fits, range_ in (
        (POSITIVE, lambda x: x >= 1, "1 or more"),
        (NOT_NEGATIVE, lambda x: x >= 0, "0 or more"),
        (ABOVE_ZERO, lambda x: x > 0, "more than 0"),
        (FRACTIONS, lambda x: 0 <= x < 1, "from 0 to under 1"),
    ):
        for path in paths:
            if (value := get(config, path)) is not None and not fits(value):
                yield f"config.{path}={value} is out of range: it must be {range_}"


def _faults_of_seq2seq(config: Config) -> Iterator[str]:
    data, model = config.data, config.model
    enc, dec = model.encoder, model.decoder
    memory_width = enc.features * (2 if enc.bidirectional else 1)
    if model.bridge == "copy" and (
        (enc.cell, enc.layers, memory_width) != (dec.cell, dec.layers, dec.features)
    ):
        yield (
            f"config.model.bridge=copy needs equal encoder and decoder states, but the encoder has "
            f"{enc.layers} × {memory_width} {enc.cell} and the decoder {dec.layers} × "
            f"{dec.features} {dec.cell}: make them equal or set config.model.bridge=dense"
        )
    if model.bridge == "backward" and not enc.bidirectional:
        yield (
            "config.model.bridge=backward reads the backward direction, which this encoder does "
            "not have: set config.model.encoder.bidirectional=True or config.model.bridge=dense"
        )
    if enc.bidirectional and data.reverse_source:
        yield (
            "config.data.reverse_source=True says nothing to a bidirectional encoder: "
            "set one of the two to False"
        )
    yield from _faults_of_attention(config, memory_width)


def _faults_of_attention(config: Config, memory_width: int) -> Iterator[str]:
    data, model, attention = config.data, config.model, config.model.attention
    reads = model.wiring in ("luong", "bahdanau")
    if reads == (attention.align == "none"):
        yield (
            f"config.model.wiring={model.wiring} and config.model.attention.align="
            f"{attention.align} do not fit: luong and bahdanau need an alignment, plain and cho "
            "take align=none"
        )
    if attention.input_feeding and model.wiring != "luong":
        yield (
            f"config.model.attention.input_feeding=True belongs to wiring=luong, not to "
            f"{model.wiring}: set input_feeding=False"
        )
    if not reads:
        return
    keys = memory_width // (2 if attention.key_value == "split" else 1)
    if attention.score in ("dot", "scaled_dot") and keys != model.decoder.features:
        yield (
            f"config.model.attention.score={attention.score} needs equal widths, but keys have "
            f"{keys} and decoder states {model.decoder.features} features: use general or concat"
        )
    if attention.score == "location" and attention.max_source <= data.max_length:
        yield (
            f"config.model.attention.max_source={attention.max_source} cannot rate sources of "
            f"data.max_length={data.max_length} words and their end: make it larger"
        )
    if attention.key_value == "split" and memory_width % 2:
        yield (
            f"config.model.attention.key_value=split cannot halve {memory_width} encoder features: "
            "make them even"
        )
    if attention.key_value == "zero" and (
        model.wiring != "luong" or attention.score not in ("general", "concat")
    ):
        yield (
            f"config.model.attention.key_value=zero starts part of a score's matrix at zero: it "
            f"needs wiring=luong and score=general or concat, not {model.wiring} and "
            f"{attention.score}"
        )
    if config.train.doubly_stochastic and attention.align == "hard":
        yield "config.train.doubly_stochastic is for soft attention: set it to 0 with align=hard"


def _faults_of_transformer(config: Config) -> Iterator[str]:
    data, model = config.data, config.model
    if model.features % model.heads:
        yield (
            f"config.model.heads={model.heads} must divide config.model.features={model.features}"
        )
    elif model.key_features > model.features // model.heads:
        yield (
            f"config.model.key_features={model.key_features} is more than a head's "
            f"{model.features // model.heads} features: make it smaller, or 0 for as many"
        )
    if model.share_embeddings and not data.shared_vocab:
        yield (
            "config.model.share_embeddings=True needs one vocabulary over both sides: set "
            "config.data.shared_vocab=True or config.model.share_embeddings=False"
        )
    if data.reverse_source:
        yield "config.data.reverse_source=True says nothing to a Transformer: set it to False"
    if not -model.layers <= model.attention_layer < model.layers:
        yield (
            f"config.model.attention_layer={model.attention_layer} is none of the {model.layers} "
            f"layers: it can be 0 to {model.layers - 1}, or count from the last, which is -1"
        )
    if model.positions == "learned" and model.max_positions <= data.max_length:
        yield (
            f"config.model.max_positions={model.max_positions} is too few for sentences of "
            f"data.max_length={data.max_length} words and their end: make it larger"
        )


def _faults_of_tagger(config: Config) -> Iterator[str]:
    data, model = config.data, config.model
    for direction in ("forward", "backward"):
        if model[f"{direction}_delay"] and model.network not in (direction, "merged"):
            yield (
                f"config.model.{direction}_delay={model[f'{direction}_delay']} is for "
                f"network={direction} or merged: set it to 0 for {model.network}"
            )
    if data.corpus == "polymusic" and model.network != "forward":
        yield (
            f"config.model.network={model.network} would see the frames that it is to predict: "
            "polymusic needs network=forward"
        )
    if data.corpus == "polymusic" and model.forward_delay:
        yield (
            f"config.model.forward_delay={model.forward_delay} would show the frames that are to "
            "be predicted: set it to 0"
        )
    if data.corpus == "polymusic" and not data.splits.valid:
        yield "config.data.splits.valid is empty: polymusic has a validation split, so name it"
    if data.corpus.startswith("series") and any(k != v for k, v in data.splits.items()):
        yield f"config.data.splits={data.splits.to_dict()}: {data.corpus} makes its own splits"
    if config.train.eval_metric == "accuracy" and data.corpus in ("series", "polymusic"):
        yield f"config.train.eval_metric=accuracy is for classes: set it to loss for {data.corpus}"
    if config.train.eval_metric == "f1" and data.corpus != "columns":
        yield f"config.train.eval_metric=f1 is for chunks in columns: {data.corpus} takes loss"
    yield from _faults_of_given_words(config)
    if data.corpus == "columns":
        known = {*data.columns, "suffix", "characters"} - {"label"}
        for name in data.inputs:
            if name not in known:
                yield f"config.data.inputs={name!r} is not known: they can be {sorted(known)}"
        if "label" not in data.columns or "word" not in data.columns:
            yield f"config.data.columns={data.columns} must have a word and a label"
        taken = {"length", "index", "line", "suffix", "characters"} & {*data.columns}
        if taken or len({*data.columns}) < len(data.columns):
            yield (
                f"config.data.columns={data.columns} must have names of their own, and none of "
                "length, index, line, suffix and characters"
            )
        if not data.inputs:
            yield "config.data.inputs is empty: name at least word"


def _faults_of_given_words(config: Config) -> Iterator[str]:
    vocab = config.data.vocab
    if (vocab.kind, vocab.tokenizer) != ("words", "split"):
        yield (
            f"config.data.vocab has kind={vocab.kind} and tokenizer={vocab.tokenizer}, but this "
            "corpus comes in words: they must be words and split"
        )


def _faults_of_classifier(config: Config) -> Iterator[str]:
    data, model = config.data, config.model
    if data.documents != (model.name == "han"):
        yield (
            f"config.data.documents={data.documents} does not fit model.name={model.name}: han "
            "reads documents, sentence a text as one sequence"
        )
    if config.train.penalty and get(config, "model.pooling") != "attention":
        yield "config.train.penalty is of the hops of pooling=attention: set it to 0"
    if data.corpus == "tsv":
        for field in ("label", "text"):
            if not data[field].isdecimal():
                yield f"config.data.{field}={data[field]!r} must be a column's number, from 0"


_FAULTS_OF = {
    "seq2seq": _faults_of_seq2seq,
    "transformer": _faults_of_transformer,
    "tagger": _faults_of_tagger,
    "sentence": _faults_of_classifier,
    "han": _faults_of_classifier,
    "reader": _faults_of_given_words,
}


def _faults_of_training(config: Config) -> Iterator[str]:
    data, train = config.data, config.train
    if data.batch_multiple % train.accumulation:
        yield (
            f"config.train.accumulation={train.accumulation} must divide "
            f"data.batch_multiple={data.batch_multiple}, the rows every batch is a multiple of"
        )
    if data.batch_unit == "sentences" and data.batch_size % data.batch_multiple:
        yield (
            f"config.data.batch_size={data.batch_size} must be a multiple of "
            f"data.batch_multiple={data.batch_multiple}"
        )
    if data.corpus == "tfds" and not data.name:
        yield "config.data.name is empty: name a TFDS dataset such as wmt14_translate/de-en"
    if config.optimizer.name == "rprop" and config.optimizer.schedule != "constant":
        yield (
            f"config.optimizer.schedule={config.optimizer.schedule} has no meaning for rprop, "
            "which sets its own step sizes: use constant"
        )
    if not train.steps and not train.epochs:
        yield "config.train.steps=0 and train.epochs=0: one of them must say how long"


def _faults_of_decoding(config: Config) -> Iterator[str]:
    decode, reads = config.decode, get(config, "model.attention.align") != "none"
    if not reads and (decode.coverage or decode.replace_unknown):
        yield (
            "config.decode.coverage and decode.replace_unknown need attention, which this model "
            "has not: set them to 0 and False"
        )
    if not decode.max_ratio + decode.max_extra >= 1:
        yield (
            f"config.decode.max_ratio={decode.max_ratio} and max_extra={decode.max_extra} leave no "
            "room for a word: make one of them 1 or more"
        )
    if decode.min_ratio > decode.max_ratio:
        yield (
            f"config.decode.min_ratio={decode.min_ratio} is more than "
            f"max_ratio={decode.max_ratio}: make it smaller"
        )
    if decode.nbest > decode.beam:
        yield (
            f"config.decode.nbest={decode.nbest} is more than decode.beam={decode.beam} can find: "
            "make the beam as wide"
        )
    if (decode.top_k or decode.top_p < 1) and not decode.temperature:
        yield (
            "config.decode.top_k and top_p are for drawing: set decode.temperature=1 too, or leave "
            "them out"
        )
    if decode.temperature and decode.beam > 1:
        yield (
            f"config.decode.temperature={decode.temperature} draws one hypothesis a sentence: set "
            "decode.beam=1, or temperature=0 for beam search"
        )
    if not 0 < decode.top_p <= 1:
        yield f"config.decode.top_p={decode.top_p} is out of range: it must be over 0, at most 1"
