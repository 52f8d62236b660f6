"""Sizes that the papers' configs share: `tiny` for a CPU minute, `small` for a GPU minute."""

from configs.base import Config


def set_stacks(config: Config, layers: int, features: int, cell: str = "lstm") -> None:
    """Encoder and decoder alike."""
    for stack in (config.model.encoder, config.model.decoder):
        stack.cell, stack.layers = cell, layers
        stack.features = stack.embedding = features


def read_both_ways(config: Config) -> None:
    """A bidirectional encoder of the same total width: every score and bridge still fits."""
    config.model.encoder.bidirectional = True
    config.model.encoder.features //= 2


def tiny(config: Config, cell: str = "lstm") -> None:
    """For two CPU cores and a corpus like dates. Weights start by Xavier's rule: the papers' are
    for layers ten times as wide."""
    set_stacks(config, layers=1, features=64, cell=cell)
    config.model.decoder.maxout = 64
    config.model.dropout = 0.0
    config.model.init, config.model.init_scale = "xavier", 1.0
    config.data.batch_size, config.data.buckets = 64, 2
    config.optimizer.learning_rate = 0.005
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = "cosine"
    config.optimizer.warmup_steps = 100
    config.train.steps = 2000
    config.train.eval_every = 500
    config.train.eval_metric = metric_of_few_words(config)


def metric_of_few_words(config: Config) -> str:
    """How many are all right, where that is not always none, as it is of whole sentences."""
    letters = config.data.source_vocab.tokenizer == "characters"
    return "exact" if config.data.corpus == "dates" or letters else "bleu"


def small(config: Config, cell: str = "lstm", layers: int = 2) -> None:
    """For a GPU and a corpus like Multi30k. A rate that falls to nothing by itself comes within a
    point of BLEU of what one that waits for plateaus has after twice the epochs."""
    set_stacks(config, layers, features=512, cell=cell)
    config.data.buckets = 3  # compiling is a large part of so short a training
    config.model.decoder.maxout = 256
    config.model.dropout = 0.5
    config.model.dtype = "bfloat16"
    config.optimizer.learning_rate = 2e-3
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule, config.optimizer.warmup_steps = "cosine", 200
    config.train.label_smoothing = 0.1
    config.train.epochs = 15.0
    config.train.eval_every = 450
    config.train.eval_metric = "bleu"
