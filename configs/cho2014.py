"""Cho et al. 2014, Learning Phrase Representations using RNN Encoder–Decoder.

    python train.py --config=configs/cho2014.py:data=dates --workdir=runs/cho

Arguments:
    data  any translation corpus of configs/datasets.py
    size  tiny, small or paper

This paper introduced the GRU. The encoder's last state c is read at every time step of the decoder,
whose initial state is tanh(V c); the output layer is maxout over (h, y, c). `paper`: 1000 units,
maxout 500, Adadelta (ρ .95, ε 1e-6), batch 64, vocabulary 15k (this recipe is from memory of the
paper). The paper reports 33.87 BLEU on En–Fr when rescoring Moses (33.30 without it), and no figure
for the network as a translator by itself.

Results: docs/results (bahdanau2015.table1, multi30k.english).
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
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
