"""Fields and rules shared by all tasks: data, optimizer, training and devices."""

from collections.abc import Iterator

from configs.schema.field import Config, Field, Fields

CELL_NAMES = ("elman", "lstm", "gru", "gru_reset_after")
CELL_HELP = "gru is the GRU of Cho 2014, and gru_reset_after that of Yang 2016"
INITIALIZER_NAMES = ("uniform", "normal", "xavier", "bahdanau")
TOKENIZER_NAMES = ("moses", "unicode", "plain", "split", "bpe", "characters")

SEED = Field(0, "Random seed of the initial parameters, the data order and dropout.", least=0)

DATA: Fields = {
    "dir": Field(
        "",
        "Folder of the corpus files; for tfds, the data_dir of TFDS (empty: its default).",
    ),
    "splits": {
        "train": Field("train", "Name of the training split in the corpus."),
        "valid": Field("valid", "Name of the validation split; empty: hold out training examples."),
        "test": Field("test", "Name of the test split; empty: the corpus has none."),
    },
    "holdout": Field(
        50,
        "If splits.valid is empty, one in this many training examples is held out for validation.",
        least=1,
    ),
    "cache": Field("cache", "Folder for prepared corpora."),
    "vocabularies": Field(
        "auto",
        "For train.init_from: learn the vocabularies from the training split (learn), keep those "
        "of the other run (keep), or add the new words and labels of the training split to them "
        "(extend). auto: keep a SentencePiece vocabulary if its settings and languages are the "
        "same, and learn all others.",
        ("auto", "learn", "keep", "extend"),
    ),
    "buckets": Field(
        6, "Maximum number of batch shapes; the training step is compiled once per shape.", least=1
    ),
    "batch_size": Field(128, "Size of a batch over all devices, in the unit batch_unit.", least=1),
    "batch_unit": Field(
        "sentences",
        "Unit of batch_size: sentences (examples), or tokens, including padding, of the longest "
        "field.",
        ("sentences", "tokens"),
    ),
    "batch_multiple": Field(
        8,
        "The number of rows of a batch is a multiple of this value. With batch_unit=tokens, this "
        "value must be a multiple of devices × train.accumulation.",
        least=1,
    ),
}


def vocabulary(tokenizer: str = "moses", lowercase: bool = False) -> Fields:
    """Return the config fields of one vocabulary, with the given defaults."""
    return {
        "kind": Field(
            "words",
            "Kind of vocabulary: whole words (words), or subwords of a SentencePiece model of type "
            "unigram or bpe.",
            ("words", "unigram", "bpe"),
        ),
        "tokenizer": Field(
            tokenizer,
            "For kind=words: moses (rules of the language), unicode (words, single digits, "
            "punctuation), plain (words, punctuation; not reversible), split (at spaces), bpe (at "
            "spaces; subwords end in @@), or characters.",
            TOKENIZER_NAMES,
        ),
        "size": Field(
            50_000,
            "For kind=words: maximum number of words, without special tokens. Otherwise: exact "
            "number of SentencePiece tokens, with special tokens.",
            least=1,
        ),
        "min_count": Field(
            1,
            "For kind=words: words with fewer occurrences in the training split become `<unk>`.",
            least=1,
        ),
        "lowercase": Field(lowercase, "Convert text to lowercase."),
    }


def recurrent(cell: str, init: str = "xavier", init_scale: float = 1.0) -> Fields:
    """Return the config fields of a model whose recurrent cells are all of one type."""
    return {
        "cell": Field(cell, f"Recurrent cell; {CELL_HELP}.", CELL_NAMES),
        **initialization(init, init_scale),
    }


def initialization(init: str, init_scale: float) -> Fields:
    """Return the config fields of a model's initializer and dtype."""
    return {
        "init": Field(
            init,
            "Initializer of the parameters: uniform, normal, xavier (Glorot uniform), or bahdanau "
            "(appendix B.1 of Bahdanau 2015).",
            INITIALIZER_NAMES,
        ),
        "init_scale": Field(
            init_scale,
            "For uniform: the bound s of [−s, s]. For normal: the standard deviation. For xavier: "
            "a factor of the variance. For bahdanau: a factor of the standard deviations.",
            above=0,
        ),
        **DTYPE,
    }


DTYPE: Fields = {
    "dtype": Field(
        "float32",
        "Dtype of activations; parameters are always float32.",
        ("float32", "bfloat16"),
    ),
}

LABEL_SMOOTHING = Field(
    0.0,
    "Label smoothing: probability mass that is spread uniformly over all classes; 0: none.",
    least=0,
    below=1,
)
WORD_DROPOUT = Field(
    0.0,
    "Fraction of the input tokens that are replaced by `<unk>` in training; 0: none.",
    least=0,
    below=1,
)


def dropout(rate: float) -> Field:
    """Return the field of a dropout rate."""
    return Field(rate, "Dropout rate; 0: no dropout.", least=0, below=1)


OPTIMIZER: Fields = {
    "name": Field(
        "adam",
        "Optimizer.",
        ("sgd", "momentum", "adam", "adamw", "adadelta", "rmsprop", "rprop"),
    ),
    "learning_rate": Field(
        1e-3, "Learning rate after warm-up; for rprop, the initial step size.", least=0
    ),
    "momentum": Field(0.9, "For momentum: decay of the accumulated gradient.", least=0, below=1),
    "b1": Field(0.9, "For adam and adamw: decay of the first moment.", least=0, below=1),
    "b2": Field(0.999, "For adam and adamw: decay of the second moment.", least=0, below=1),
    "eps": Field(1e-8, "For adam, adamw, adadelta and rmsprop: ε in the denominator.", above=0),
    "rho": Field(0.95, "For adadelta: decay of the moving averages.", least=0, below=1),
    "weight_decay": Field(0.0, "For adamw: decoupled weight decay; 0: none.", least=0),
    "clip_norm": Field(5.0, "Maximum global norm of the gradient; 0: no clipping.", least=0),
    "schedule": Field(
        "constant",
        "Learning-rate schedule: constant, halving (Luong 2015), inverse_sqrt (Vaswani 2017), "
        "cosine (to 0 at the last training step), or plateau (lowered when the validation metric "
        "stops improving).",
        ("constant", "halving", "inverse_sqrt", "cosine", "plateau"),
    ),
    "warmup_steps": Field(0, "Number of training steps of linear warm-up; 0: none.", least=0),
    "halve_from": Field(5.0, "For halving: number of epochs before the first halving.", least=0),
    "halve_every": Field(1.0, "For halving: number of epochs between two halvings.", above=0),
    "plateau_factor": Field(
        0.5, "For plateau: factor that lowers the learning rate.", least=0, below=1
    ),
    "plateau_patience": Field(
        3,
        "For plateau: number of evaluations without improvement before the learning rate is "
        "lowered; 0: lower it at every evaluation.",
        least=0,
    ),
}

TRAIN: Fields = {
    "steps": Field(0, "Number of training steps; 0: train.epochs determines it.", least=0),
    "epochs": Field(10.0, "Number of epochs, if train.steps is 0.", least=0),
    "init_from": Field(
        "",
        "Initialize the parameters from another run: its folder, or folder@checkpoint with a "
        "checkpoint best (default), last, average or a training step; empty: random "
        "initialization.",
    ),
    "loss_per": Field(
        "token",
        "Average the gradient of a batch over its tokens (token), or over its sentences "
        "(sentence), as in papers that train with SGD.",
        ("token", "sentence"),
    ),
    "accumulation": Field(
        1,
        "Number of micro-batches per batch, to save memory; 1: do not split the batch.",
        least=1,
    ),
    "ema": Field(
        0.0,
        "Decay of the moving average of the parameters, which is used for evaluation; 0: no "
        "average.",
        least=0,
        below=1,
    ),
    "eval_every": Field(
        1000, "Number of training steps between evaluations, which also save a checkpoint.", least=1
    ),
    "patience": Field(
        0,
        "Number of evaluations without improvement before training stops early; 0: no early "
        "stopping.",
        least=0,
    ),
    "keep": Field(
        1,
        "Number of latest evaluated checkpoints to keep, for averaging; the best one and the "
        "latest two are always kept.",
        least=1,
    ),
    "log_every": Field(100, "Number of training steps between log lines.", least=1),
    "samples": Field(
        3, "Number of validation examples to log at each evaluation; 0: none.", least=0
    ),
    "max_skipped": Field(
        20,
        "The run stops after this many consecutive training steps whose loss or gradient is not "
        "finite; such steps are skipped.",
        least=1,
    ),
}

MESH: Fields = {
    "state_shards": Field(
        1,
        "Number of devices over which parameters and optimizer state are sharded between training "
        "steps; 1: replicate them.",
        least=1,
    ),
}


# The metrics in train.eval_metric for which lower values are better.
LOWER_IS_BETTER = ("loss",)


def metric(*names: str) -> Field:
    """Return the field `train.eval_metric` of a task; the loss is always allowed.

    If lower values of a metric are better, also add its name to LOWER_IS_BETTER.
    """
    return Field("loss", "Validation metric that selects the best checkpoint.", ("loss", *names))


def rules(config: Config) -> Iterator[str]:
    """Yield one error message per invalid combination of shared fields."""
    data, train = config.data, config.train
    if data.batch_multiple % train.accumulation:
        yield (
            f"config.train.accumulation={train.accumulation} must divide "
            f"data.batch_multiple={data.batch_multiple}: change one of them"
        )
    if data.batch_unit == "sentences" and data.batch_size % data.batch_multiple:
        yield (
            f"config.data.batch_size={data.batch_size} must be a multiple of "
            f"data.batch_multiple={data.batch_multiple}: change one of them"
        )
    if data.corpus == "tfds" and not data.name:
        yield "config.data.name is empty: set it to a TFDS dataset, such as wmt14_translate/de-en"
    if config.optimizer.name == "rprop" and config.optimizer.schedule != "constant":
        yield (
            f"config.optimizer.schedule={config.optimizer.schedule} has no effect on rprop, which "
            "adapts its step sizes itself: set config.optimizer.schedule=constant"
        )
    if config.optimizer.name == "rprop" and config.optimizer.warmup_steps:
        yield (
            f"config.optimizer.warmup_steps={config.optimizer.warmup_steps} has no effect on "
            "rprop, which adapts its step sizes itself: set config.optimizer.warmup_steps=0"
        )
    if data.vocabularies in ("keep", "extend") and not train.init_from:
        yield (
            f"config.data.vocabularies={data.vocabularies} needs another run: set "
            "config.train.init_from to its folder, or config.data.vocabularies=auto"
        )
    names = ["vocab", "source_vocab", *(["target_vocab"] if not data.get("shared_vocab") else [])]
    for name in names if data.vocabularies == "extend" else ():
        if name in data and data[name].kind != "words":
            yield (
                f"config.data.vocabularies=extend cannot add tokens to the SentencePiece model of "
                f"config.data.{name}.kind={data[name].kind}: set config.data.vocabularies=keep"
            )
    if not train.steps and not train.epochs:
        yield "config.train.steps and config.train.epochs are both 0: set one of them"


def pretokenized_rules(config: Config) -> Iterator[str]:
    """Yield error messages for vocabulary settings that do not suit a tokenized corpus."""
    vocab = config.data.vocab
    if (vocab.kind, vocab.tokenizer) != ("words", "split"):
        yield (
            f"config.data.vocab has kind={vocab.kind} and tokenizer={vocab.tokenizer}, but this "
            "corpus is already split into words: set kind=words and tokenizer=split"
        )
