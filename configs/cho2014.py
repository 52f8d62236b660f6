"""Cho et al. 2014, Learning Phrase Representations using RNN Encoder–Decoder.

    python train.py --config=configs/cho2014.py:data=dates --workdir=runs/cho
    python eval.py --workdir=runs/cho

These commands take about two minutes on two CPU cores and reach an exact match of 99.9 %
(docs/results/dates.md).

Arguments (the first value is the default):
    data  dates, or another translation corpus of configs/datasets.py
    size  tiny, small or paper

This paper introduced the GRU. The model has no attention: the decoder reads the final encoder state
c at every time step, its initial state is tanh(V c), and its output layer is a maxout over the
state, the previous token and c. `paper` has 1000 units, a maxout of 500, a vocabulary of 15,000
words, Adadelta (ρ = 0.95, ε = 1e-6) and batches of 64 sentences, quoted from memory and not checked
against the paper. The paper reports 33.87 BLEU on English–French for Moses rescored by the network
(33.30 for Moses alone), and no score for the network as a translator.

Result pages in docs/results: bahdanau2015.table1, multi30k.english.
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    args = parse(arguments, data=DATASETS["translation"], size=SIZES)
    config = base_config("seq2seq")
    use_dataset(config, args["data"])
    config.model.decoder.type, config.model.bridge = "cho", "dense"
    config.model.attention.align, config.model.attention.input_feeding = "none", False
    SIZES[args["size"]](config)
    return config.lock()


def _tiny(config: Config) -> None:
    recipes.tiny(config, cell="gru")
    recipes.set_stacks(config, layers=1, features=128, cell="gru")
    config.train.steps = 2500


def _small(config: Config) -> None:
    recipes.small(config, cell="gru", layers=1)


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=1, features=1000, cell="gru")
    recipes.set_vocabulary_sizes(config, 15_000, 15_000)
    config.data.batch_size = 64
    config.model.dropout = 0.0
    config.model.init, config.model.init_scale = "bahdanau", 1.0
    config.optimizer.name, config.optimizer.learning_rate = "adadelta", 1.0
    config.optimizer.eps = 1e-6
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
