"""Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks.

    python train.py --config=configs/sutskever2014.py:data=dates --workdir=runs/sutskever

Arguments:
    data     any translation corpus of configs/datasets.py
    reverse  yes or no: read the source from its end
    size     tiny, small or paper

There is no attention: a deep LSTM reads the source from its end, and each layer's final state is
the initial state of the decoder's layer. `paper` is the paper's recipe: 4 × 1000 LSTM,
U(−.08, .08), SGD .7, halved every half epoch from epoch 5 on, 7.5 epochs, batch 128, gradient norm
5 (vocabularies of 160k and 80k are from memory of the paper). The paper reports 30.59 BLEU on
WMT'14 En–Fr (one model, reversed, beam 12) and 26.17 without reversal. The paper's reversed source
ends in <EOS>; here </s> stays the last token of the sentence, so it is read first.

Results: docs/results (multi30k.english).
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
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
