"""Xu et al. 2015, Show, Attend and Tell: hard attention, and doubly stochastic soft attention.

    python train.py --config=configs/xu2015.py:attention=hard,data=dates --workdir=runs/xu

Arguments:
    data       any translation corpus of configs/datasets.py
    attention  hard or soft
    size       tiny, small or paper

The paper captions images; here its two kinds of attention translate, in Bahdanau's model. `hard`
reads one sampled source position per time step and is trained with REINFORCE: a moving-average
baseline, an entropy bonus, and the expectation instead of a sample in half of the sentences. `soft`
adds the doubly stochastic penalty. `paper` has the sizes of the authors' captioning code
(github.com/kelvinxu/arctic-captions, evaluate_coco.py): 1 × 1800 LSTM over annotations of 512 (here
a bidirectional encoder of 256 in each direction), embeddings 512, 10k words, Adam 2e-4, batch 64,
dropout .5, λ = 1. There is no published figure for translation.

Results: docs/results (luong2015.table6).
"""

from configs import bahdanau2015, recipes
from configs.arguments import parse
from configs.base import Config
from configs.datasets import DATASETS

SIZES = tuple(bahdanau2015.SIZES)


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["translation"],
        attention=("hard", "soft"),
        size=SIZES,
    )
    align = "hard" if args["attention"] == "hard" else "global"
    config = bahdanau2015.get_config(f"data={args['data']},align={align},size={args['size']}")
    if args["attention"] == "soft":
        config.train.doubly_stochastic = 1.0 if args["size"] == "paper" else 0.1
    if args["size"] == "paper":
        _paper(config)
    return config


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=1, features=512)
    recipes.read_both_ways(config)
    config.model.decoder.features = 1800
    config.model.decoder.maxout = 256  # the paper's deep output layer has 512 linear units
    recipes.set_vocabulary_sizes(config, 10_000, 10_000)
    config.data.batch_size = 64
    config.model.dropout = 0.5
    config.optimizer.name, config.optimizer.learning_rate = "adam", 2e-4
    config.optimizer.eps, config.optimizer.clip_norm = 1e-8, 0.0
    config.train.patience = 10
