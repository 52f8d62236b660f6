"""Xu et al. 2015, Show, Attend and Tell: hard attention, and doubly stochastic soft attention.

    python train.py --config=configs/xu2015.py:attention=hard,data=dates --workdir=runs/xu
    python eval.py --workdir=runs/xu

These commands take two to three minutes on two CPU cores and reach an exact match of 100 %
(docs/results/dates.md).

Arguments (the first value is the default):
    data       dates, or another translation corpus of configs/datasets.py
    attention  hard or soft
    size       tiny, small or paper

The paper generates captions of images. Here its two kinds of attention are used for translation, in
the model of bahdanau2015.py. Hard attention reads one sampled source position per time step and is
trained with REINFORCE and an entropy bonus. Two changes to the paper make it learn on real text:
the baseline is log p of the same token under soft attention instead of a moving average, and the
reward of a sample is log p of the token at its time step instead of the whole sentence
(docs/differences.md). The loss of soft attention is also a part of the training loss, in place of
the paper's random choice between the sampled and the expected context. Soft attention is trained
with the doubly stochastic penalty.

`paper` has the sizes of the authors' captioning code (github.com/kelvinxu/arctic-captions,
evaluate_coco.py): an LSTM of 1800 units over annotations of 512 (here a bidirectional encoder with
256 units in each direction), embeddings of 512, 10,000 words, Adam with a learning rate of 2e-4,
batches of 64, dropout of 0.5, λ = 1. The paper reports no score for translation.

Result pages in docs/results: luong2015.table6, xu2015.table, jain2019.translation.
"""

from configs import bahdanau2015, recipes
from configs.arguments import parse
from configs.base import Config
from configs.datasets import DATASETS

SIZES = tuple(bahdanau2015.SIZES)


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
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
    recipes.make_bidirectional(config)
    config.model.decoder.features = 1800
    config.model.decoder.maxout = 256  # maxima of pairs of 512 linear units, as in the paper
    recipes.set_vocabulary_sizes(config, 10_000, 10_000)
    config.data.batch_size = 64
    config.model.dropout = 0.5
    config.optimizer.name, config.optimizer.learning_rate = "adam", 2e-4
    config.optimizer.eps, config.optimizer.clip_norm = 1e-8, 0.0
    config.train.patience = 10
