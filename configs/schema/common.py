"""Fields and rules that all tasks share: data, optimizer, training and devices."""

from collections.abc import Iterator

from configs.schema.field import Config, Field, Fields

CELL_NAMES = ("elman", "lstm", "gru")
INITIALIZER_NAMES = ("uniform", "normal", "xavier", "bahdanau")
TOKENIZER_NAMES = ("moses", "unicode", "plain", "split", "bpe", "characters")

SEED = Field(0, "Seed of the initial parameters, the data order and dropout.", least=0)

DATA: Fields = {
    "dir": Field("", "Folder of the corpus; for TFDS, its data_dir."),
    "splits": {
        "train": Field("train", "The corpus' own name of the training split."),
        "valid": Field("valid", "The validation split; empty: hold out training examples."),
        "test": Field("test", "The test split; empty: the corpus has none."),
    },
    "holdout": Field(
        50, "Where splits.valid is empty, one in this many training examples is held out.", least=1
    ),
    "cache": Field("cache", "Folder of prepared corpora."),
    "buckets": Field(6, "Largest number of batch shapes, and so of compilations.", least=1),
    "batch_size": Field(128, "Examples or tokens per batch; see batch_unit.", least=1),
    "batch_unit": Field(
        "sentences",
        "What batch_size counts: examples, or padded tokens of the longest field.",
        ("sentences", "tokens"),
    ),
    "batch_multiple": Field(
        8,
        "The rows of a batch are a multiple of this; with batch_unit=tokens, devices × "
        "train.accumulation must divide it.",
        least=1,
    ),
}


def vocabulary(tokenizer: str = "moses", lowercase: bool = False) -> Fields:
    """The fields of one vocabulary."""
    return {
        "kind": Field(
            "words",
            "Whole words, or SentencePiece units (unigram or bpe).",
            ("words", "unigram", "bpe"),
        ),
        "tokenizer": Field(tokenizer, "With kind=words, how text is split.", TOKENIZER_NAMES),
        "size": Field(50_000, "Number of most frequent words, or SentencePiece units.", least=1),
        "min_count": Field(1, "Words with fewer occurrences become <unk>.", least=1),
        "lowercase": Field(lowercase, "Convert text to lower case."),
    }


def recurrent(cell: str, init: str = "xavier", init_scale: float = 1.0) -> Fields:
    """Fields of models that are one recurrent network with one kind of cell."""
    return {
        "cell": Field(cell, "Recurrent cell.", CELL_NAMES),
        **weights(init, init_scale),
    }


def weights(init: str, init_scale: float) -> Fields:
    """How parameters start, and the dtype of the computation."""
    return {
        "init": Field(init, "Distribution of the initial parameters.", INITIALIZER_NAMES),
        "init_scale": Field(init_scale, "Range or standard deviation of that distribution; "
                            "for xavier and bahdanau, a factor.", above=0),
        **DTYPE,
    }  # fmt: skip


DTYPE: Fields = {
    "dtype": Field(
        "float32",
        "Dtype of the computation; parameters are always float32.",
        ("float32", "bfloat16"),
    ),
}

LABEL_SMOOTHING = Field(
    0.0, "Share of the target distribution that is spread over all classes.", least=0, below=1
)
WORD_DROPOUT = Field(
    0.0, "Share of the input words that training replaces by <unk>.", least=0, below=1
)


def dropout(rate: float) -> Field:
    return Field(rate, "Dropout rate.", least=0, below=1)


OPTIMIZER: Fields = {
    "name": Field(
        "adam",
        "Update rule.",
        ("sgd", "momentum", "adam", "adamw", "adadelta", "rmsprop", "rprop"),
    ),
    "learning_rate": Field(1e-3, "Learning rate after warm-up.", least=0),
    "momentum": Field(0.9, "For momentum: decay of the accumulated gradient.", least=0, below=1),
    "b1": Field(0.9, "For adam and adamw: decay of the first moment.", least=0, below=1),
    "b2": Field(0.999, "For adam and adamw: decay of the second moment.", least=0, below=1),
    "eps": Field(1e-8, "For adam, adamw, adadelta and rmsprop: ε in the denominator.", above=0),
    "rho": Field(0.95, "For adadelta: decay of the moments.", least=0, below=1),
    "weight_decay": Field(0.0, "For adamw: decoupled weight decay.", least=0),
    "clip_norm": Field(5.0, "Largest gradient norm; 0: no clipping.", least=0),
    "schedule": Field(
        "constant",
        "Learning-rate schedule after warm-up.",
        ("constant", "halving", "inverse_sqrt", "cosine", "plateau"),
    ),
    "warmup_steps": Field(0, "Training steps of linear warm-up.", least=0),
    "halve_from": Field(5.0, "For halving: epochs at the full rate.", least=0),
    "halve_every": Field(1.0, "For halving: epochs between two halvings.", above=0),
    "plateau_factor": Field(0.5, "For plateau: factor of each reduction.", least=0, below=1),
    "plateau_patience": Field(
        3, "For plateau: evaluations without improvement before a reduction.", least=0
    ),
}

TRAIN: Fields = {
    "steps": Field(0, "Training steps; 0: train.epochs decides.", least=0),
    "epochs": Field(10.0, "Epochs, where train.steps is 0.", least=0),
    "loss_per": Field(
        "token",
        "What summed gradients are divided by: tokens, or sentences as in the SGD papers.",
        ("token", "sentence"),
    ),
    "accumulation": Field(1, "Micro-batches per batch.", least=1),
    "ema": Field(
        0.0, "Decay of the averaged parameters that are evaluated; 0: none.", least=0, below=1
    ),
    "eval_every": Field(1000, "Training steps between evaluations and checkpoints.", least=1),
    "patience": Field(
        0, "Evaluations without improvement before training stops; 0: never.", least=0
    ),
    "keep": Field(
        1,
        "Latest checkpoints kept for averaging; the latest two and the best are always kept.",
        least=1,
    ),
    "log_every": Field(100, "Training steps between log lines.", least=1),
    "samples": Field(3, "Examples shown at each evaluation.", least=0),
    "max_skipped": Field(
        20, "Consecutive non-finite training steps after which the run stops.", least=1
    ),
}

MESH: Fields = {
    "state_shards": Field(
        1,
        "Devices over which parameters and optimizer state are sharded between training steps.",
        least=1,
    ),
}


def metric(*names: str) -> Field:
    """`train.eval_metric` of a task; the loss is always possible."""
    return Field("loss", "Validation score that selects the best checkpoint.", ("loss", *names))


def rules(config: Config) -> Iterator[str]:
    data, train = config.data, config.train
    if data.batch_multiple % train.accumulation:
        yield (
            f"config.train.accumulation={train.accumulation} must divide "
            f"data.batch_multiple={data.batch_multiple}"
        )
    if data.batch_unit == "sentences" and data.batch_size % data.batch_multiple:
        yield (
            f"config.data.batch_size={data.batch_size} must be a multiple of "
            f"data.batch_multiple={data.batch_multiple}"
        )
    if data.corpus == "tfds" and not data.name:
        yield "config.data.name is empty: name a TFDS dataset, such as wmt14_translate/de-en"
    if config.optimizer.name == "rprop" and config.optimizer.schedule != "constant":
        yield (
            f"config.optimizer.schedule={config.optimizer.schedule} has no effect on rprop, which "
            "adapts its own step sizes: set it to constant"
        )
    if not train.steps and not train.epochs:
        yield "config.train.steps and config.train.epochs are both 0: set one of them"


def given_words(config: Config) -> Iterator[str]:
    """For corpora that are already split into words."""
    vocab = config.data.vocab
    if (vocab.kind, vocab.tokenizer) != ("words", "split"):
        yield (
            f"config.data.vocab has kind={vocab.kind} and tokenizer={vocab.tokenizer}, but this "
            "corpus is already split into words: set them to words and split"
        )
