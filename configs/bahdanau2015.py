"""Bahdanau, Cho & Bengio 2015, NMT by Jointly Learning to Align and Translate.

    python train.py --config=configs/bahdanau2015.py:data=dates --workdir=runs/bahdanau

Arguments:
    data   any translation corpus of configs/datasets.py
    align  alignment
    score  score; concat is the paper's
    size   tiny, small or paper

Attention comes before the recurrent step, over a bidirectional GRU. `paper` is RNNsearch-50: 1000
units in each direction, embeddings 620, maxout 500, vocabulary 30k, Adadelta (ρ .95, ε 1e-6),
gradient norm 1, batch 80, and the paper's initial parameters. The paper reports 26.75 BLEU on
WMT'14 En–Fr (28.45 after longer training) and 17.82 for the same model without attention.

Results: docs/results (bahdanau2015.table1, multi30k.english).
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config, choices
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["translation"],
        align=choices("seq2seq", "model.attention.align"),
        score=choices("seq2seq", "model.attention.score", first="concat"),
        size=SIZES,
    )
    config = base_config("seq2seq")
    use_dataset(config, args["data"])
    model = config.model
    model.decoder.type, model.bridge = "bahdanau", "backward"
    model.attention.align, model.attention.score = args["align"], args["score"]
    model.attention.input_feeding = False
    SIZES[args["size"]](config)
    return config.lock()


def _tiny(config: Config) -> None:
    recipes.tiny(config, cell="gru")
    recipes.read_both_ways(config)


def _small(config: Config) -> None:
    recipes.small(config, cell="gru", layers=1)
    config.model.encoder.bidirectional = True  # each direction as wide as the decoder (the paper's)


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=1, features=1000, cell="gru")
    config.model.encoder.bidirectional = True
    for stack in (config.model.encoder, config.model.decoder):
        stack.embedding = 620
    recipes.set_vocabulary_sizes(config, 30_000, 30_000)
    config.data.batch_size = 80
    config.model.dropout = 0.0
    config.model.init, config.model.init_scale = "bahdanau", 1.0
    config.optimizer.name, config.optimizer.learning_rate = "adadelta", 1.0
    config.optimizer.eps, config.optimizer.clip_norm = 1e-6, 1.0
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
