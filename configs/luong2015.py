"""Luong, Pham & Manning 2015, Effective Approaches to Attention-based Neural Machine Translation.

    python train.py --config=configs/luong2015.py:score=general,align=global,data=dates \
        --workdir=runs/luong

Arguments: data (any name of configs/datasets.py), align (global, none), score (general, dot,
concat, location), feed (yes, no), size (tiny, small, paper).

`paper` is the paper's own recipe: 4 × 1000 LSTM, SGD from 1.0, halved every epoch after the fifth,
reversed source, U(−.1, .1), gradient norm 5, batch 128; with dropout .2, 12 epochs and halving
after 8. It reports 19.0 BLEU at best on WMT'14 En–De newstest2014 (Table 1, without unknown-word
replacement); not run here.

Measured, test split, greedy decoding:

    data=dates (tiny)                     EXACT exact match, 2 CPU cores, TIME
    data=multi30k_de_en,size=small        37.8 BLEU, 2 min 16 s on an H200
        --config.train.epochs=15.0        nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0
"""

from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS,
        align=("global", "none"),
        score=("general", "dot", "concat", "location"),
        feed=("yes", "no"),
        size=("tiny", "small", "paper"),
    )
    config = base_config()
    use_dataset(config, args["data"])
    attention = config.model.attention
    attention.align, attention.score = args["align"], args["score"]
    attention.input_feeding = args["feed"] == "yes" and args["align"] != "none"
    SIZES[args["size"]](config)
    return config.lock()


def _tiny(config: Config) -> None:
    """For two CPU cores and a corpus like dates.

    Departs from the paper where so small a model wants it: the encoder reads both ways (half the
    width each, so that every score and bridge still fits) and weights start by Xavier's rule.
    """
    _set_stacks(config, layers=1, features=64)
    config.model.encoder.features = 32
    config.model.encoder.bidirectional = True
    config.model.dropout = 0.0
    config.model.init, config.model.init_scale = "xavier", 1.0
    config.data.batch_size, config.data.buckets = 64, 2
    config.optimizer.learning_rate = 0.005
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = "cosine"
    config.optimizer.warmup_steps = 100
    config.train.steps = 2000
    config.train.eval_every = 500
    config.train.eval_metric = "exact"


def _small(config: Config) -> None:
    """For a GPU and a corpus like Multi30k."""
    _set_stacks(config, layers=2, features=512)
    config.model.dropout = 0.3
    config.model.dtype = "bfloat16"
    config.optimizer.learning_rate = 1e-3
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule = "plateau"
    config.train.label_smoothing = 0.1
    config.train.epochs = 30.0
    config.train.eval_every = 250
    config.train.eval_metric = "bleu"
    config.train.patience = 8


def _paper(config: Config) -> None:
    _set_stacks(config, layers=4, features=1000)
    config.data.reverse_source = True
    config.data.batch_size = 128
    config.model.dtype = "bfloat16"
    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = 1.0
    config.optimizer.schedule = "halving"
    config.optimizer.halve_from = 8.0
    config.train.epochs = 12.0
    config.train.eval_every = 5000


def _set_stacks(config: Config, layers: int, features: int) -> None:
    for stack in (config.model.encoder, config.model.decoder):
        stack.layers, stack.features, stack.embedding = layers, features, features


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
