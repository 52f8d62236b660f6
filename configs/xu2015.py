"""Xu et al. 2015, Show, Attend and Tell: hard attention, and soft attention that reads all.

    python train.py --config=configs/xu2015.py:attention=hard,data=dates --workdir=runs/xu

Arguments: data (any name of configs/datasets.py), attention (hard, soft), size (tiny, small,
paper).

The paper captions images; its two ways to attend are taken to translation here, over Bahdanau's
model. `hard` reads one sampled source position a step and learns by REINFORCE with a moving-average
baseline, an entropy bonus and the expectation in half of the sentences; `soft` adds the doubly
stochastic penalty. `paper` keeps the sizes of the authors' published captioning code
(github.com/kelvinxu/arctic-captions, evaluate_coco.py): 1 × 1800 LSTM over annotations of 512 (a
bidirectional encoder of 256 each way stands for the image), embeddings 512, 10k words, Adam 2e-4,
batch 64, dropout .5, λ = 1; there is no published figure of it on translation, and it was not run.

Measured, data=dates (tiny), test split, greedy: hard 100.0 % exact match, alignment error 51.2 %;
soft 100.0 and 9.0 %; 2 to 3 min each on 2 CPU cores.
"""

from configs import bahdanau2015, recipes
from configs.arguments import parse
from configs.base import Config
from configs.datasets import DATASETS

SIZES = ("tiny", "small", "paper")


def get_config(arguments: str = "") -> Config:
    args = parse(arguments, data=DATASETS["translation"], attention=("hard", "soft"), size=SIZES)
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
    config.model.decoder.maxout = 256  # the paper's deep output layer is 512 linear units
    for side in (config.data.source_vocab, config.data.target_vocab):
        side.size = 10_000
    config.data.batch_size = 64
    config.model.dropout = 0.5
    config.optimizer.name, config.optimizer.learning_rate = "adam", 2e-4
    config.optimizer.eps, config.optimizer.clip_norm = 1e-8, 0.0
    config.train.patience = 10
