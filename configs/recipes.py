"""Hyperparameters that the configs of several papers share.

Sizes have the same names in every config: `tiny` trains in minutes on two CPU cores, `small` trains
in minutes on one GPU, and `paper` uses the hyperparameters of the paper where they are known.
"""

from configs.base import Config

YES_NO = ("yes", "no")


def set_stacks(config: Config, layers: int, features: int, cell: str = "lstm") -> None:
    """Give the encoder and the decoder the same depth, width and cell."""
    for stack in (config.model.encoder, config.model.decoder):
        stack.cell, stack.layers = cell, layers
        stack.features = stack.embedding = features


def make_bidirectional(config: Config) -> None:
    """Make the encoder bidirectional, and halve its features to keep its total width.

    The dot score needs encoder states that are as wide as the decoder states.
    """
    config.model.encoder.bidirectional = True
    config.model.encoder.features //= 2


def set_vocabulary_sizes(config: Config, source: int, target: int) -> None:
    """Set the sizes of the source and target vocabularies, in words."""
    config.data.source_vocab.size, config.data.target_vocab.size = source, target


def set_cosine(config: Config, rate: float, warmup: int, clip_norm: float = 1.0) -> None:
    """Use a cosine schedule with peak `rate` and linear warm-up over `warmup` training steps."""
    config.optimizer.learning_rate, config.optimizer.clip_norm = rate, clip_norm
    config.optimizer.schedule, config.optimizer.warmup_steps = "cosine", warmup


def spelled(config: Config) -> bool:
    """Return whether the source tokens are the letters of one word, as in CMUdict."""
    return config.data.source_vocab.tokenizer == "characters"


def short_text_metric(config: Config) -> str:
    """Return the validation metric: exact match for dates and single words, otherwise BLEU."""
    return "exact" if config.data.corpus == "dates" or spelled(config) else "bleu"


def tiny(config: Config, cell: str = "lstm") -> None:
    """Set the size `tiny`, for two CPU cores and a corpus such as dates.

    This size uses the Xavier initializer, because the initializers of the papers are meant for
    layers that are ten times wider.
    """
    set_stacks(config, layers=1, features=64, cell=cell)
    config.model.decoder.maxout = 64
    config.model.dropout = 0.0
    config.model.init, config.model.init_scale = "xavier", 1.0
    config.data.batch_size, config.data.buckets = 64, 2
    set_cosine(config, rate=0.005, warmup=100)
    config.train.steps = 2000
    config.train.eval_every = 500
    config.train.eval_metric = short_text_metric(config)


def small(config: Config, cell: str = "lstm", layers: int = 2) -> None:
    """Set the size `small`, for one GPU and a corpus such as Multi30k."""
    set_stacks(config, layers, features=512, cell=cell)
    config.data.buckets = 3  # few, because a short run would spend much time compiling buckets
    config.model.decoder.maxout = 256
    config.model.dropout = 0.5
    config.model.dtype = "bfloat16"
    set_cosine(config, rate=2e-3, warmup=200)
    config.train.label_smoothing = 0.1
    config.train.epochs = 15.0
    config.train.eval_every = 450
    config.train.eval_metric = "bleu"
