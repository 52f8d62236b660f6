"""Mino et al. 2017, Key-value Attention Mechanism for Neural Machine Translation.

    python train.py --config=configs/mino2017.py:keys=split,data=dates --workdir=runs/mino

Arguments:
    data   any translation corpus of configs/datasets.py
    keys   split, zero or none
    score  score; `zero` needs general or concat
    size   tiny or small

Each encoder state is split into two halves: one is scored, the other makes the context. `zero` is
the unsplit network whose parameters start as in the split one, with part of the matrices at zero;
`none` is the ordinary model of the same size. The paper's figures and its recipe were not
available, so there is no size=paper.

Results: docs/results (luong2015.table6).
"""

from configs import luong2015
from configs.arguments import parse
from configs.base import Config, choices
from configs.datasets import DATASETS

SIZES = ("tiny", "small")


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["translation"],
        keys=choices("seq2seq", "model.attention.key_value", first="split"),
        score=choices("seq2seq", "model.attention.score"),
        size=SIZES,
    )
    config = luong2015.get_config(f"data={args['data']},score={args['score']},size={args['size']}")
    config.model.attention.key_value = args["keys"]
    return config
