"""Mino et al. 2017, Key-value Attention Mechanism for Neural Machine Translation.

    python train.py --config=configs/mino2017.py:keys=split,data=dates --workdir=runs/mino
    python eval.py --workdir=runs/mino

These commands take about two minutes on two CPU cores and reach an exact match of 100 %
(docs/results/dates.md).

Arguments (the first value is the default; docs/configuration.md has all values of named fields):
    data     dates, or another translation corpus of configs/datasets.py
    keys     split, none or zero (see below)
    score    attention score (model.attention.score): general, dot, scaled_dot, concat or location;
             keys=zero needs general or concat
    encoder  auto or bidirectional, as in luong2015.py
    size     tiny or small

The model is that of luong2015.py. With keys=split, each encoder state is split into two halves:
keys, from which the attention scores are computed, and values, whose weighted sum is the context
vector. keys=zero does not split the states. Instead, it initializes the blocks of the weight
matrices that the split network does not have to zero. keys=none is the ordinary model of the same
size. There is no size=paper, because the paper's recipe and scores were not available.

Result pages in docs/results: mino2017.keys, luong2015.table6, jain2019.translation.
"""

from configs import luong2015
from configs.arguments import parse
from configs.base import Config, choices
from configs.datasets import DATASETS

SIZES = ("tiny", "small")


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    args = parse(
        arguments,
        data=DATASETS["translation"],
        keys=choices("seq2seq", "model.attention.key_value", first="split"),
        score=choices("seq2seq", "model.attention.score"),
        encoder=luong2015.ENCODERS,
        size=SIZES,
    )
    passed = ",".join(f"{name}={args[name]}" for name in ("data", "score", "encoder", "size"))
    config = luong2015.get_config(passed)
    config.model.attention.key_value = args["keys"]
    return config
