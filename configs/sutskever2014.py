"""Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks.

    python train.py --config=configs/sutskever2014.py:data=dates --workdir=runs/sutskever
    python eval.py --workdir=runs/sutskever

These commands take about four minutes on two CPU cores and reach an exact match of 99.3 %
(docs/results/dates.md).

Arguments (the first value is the default):
    data     dates, or another translation corpus of configs/datasets.py
    reverse  yes (reversed source) or no
    size     tiny, small or paper

The model has no attention: a deep LSTM encodes the source, and the final state of each layer is the
initial state of the same layer of the decoder. `paper` is the paper's recipe: a 4 × 1000 LSTM,
initial parameters from U(−0.08, 0.08), SGD with a learning rate of 0.7 that is halved every half
epoch after the fifth, 7.5 epochs, batches of 128 sentences, gradients clipped to norm 5. The
vocabulary sizes, 160,000 source words and 80,000 target words, are quoted from memory and were
not checked against the paper. The paper reports 30.59 BLEU on WMT'14 English–French (one model,
reversed source, beam 12) and 26.17 without reversal. The paper's reversed source ends in <EOS>;
here </s> is reversed with the sentence, so the encoder reads it first.

Result pages in docs/results: sutskever2014.table1, sutskever2014.depth, multi30k.english.
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    args = parse(arguments, data=DATASETS["translation"], reverse=recipes.YES_NO, size=SIZES)
    config = base_config("seq2seq")
    use_dataset(config, args["data"])
    config.model.decoder.type = "plain"
    config.model.attention.align, config.model.attention.input_feeding = "none", False
    config.data.reverse_source = args["reverse"] == "yes"
    SIZES[args["size"]](config)
    return config.lock()


def _tiny(config: Config) -> None:
    recipes.tiny(config)
    recipes.set_stacks(config, layers=2, features=128)
    config.train.steps = 2500


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=4, features=1000)
    recipes.set_vocabulary_sizes(config, 160_000, 80_000)
    config.model.dropout = 0.0
    config.model.dtype = "bfloat16"
    config.model.init_scale = 0.08
    config.optimizer.name, config.optimizer.learning_rate = "sgd", 0.7
    config.optimizer.schedule = "halving"
    config.optimizer.halve_from, config.optimizer.halve_every = 5.0, 0.5
    config.train.epochs = 7.5
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": recipes.small, "paper": _paper}
