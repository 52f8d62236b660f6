"""Sutskever, Vinyals & Le 2014, Sequence to Sequence Learning with Neural Networks.

    python train.py --config=configs/sutskever2014.py:data=dates --workdir=runs/sutskever

Arguments: data (any name of configs/datasets.py), reverse (yes, no), size (tiny, small, paper).

No attention: a deep LSTM reads the source from its end and hands its states over layer by layer.
`paper` is the paper's own recipe: 4 × 1000 LSTM, U(−.08, .08), SGD .7, from epoch 5 halved every
half epoch, 7.5 epochs, batch 128, gradient norm 5 (vocabularies of 160k and 80k from memory of the
paper, to be checked). It reports 30.59 BLEU on WMT'14 En–Fr (one
model, reversed, beam 12) and 26.17 without the reversal; not run here. The paper's reversed source
ends in <EOS>; here <EOS> stays the last word of the sentence, so it is the first one read.

Measured, data=dates (tiny), test split, greedy: 99.3 % exact match, 65.7 % with reverse=no; 3 min
57 s on 2 CPU cores. data=multi30k_de_en,size=small: 24.09 ± 1.03 tokenised BLEU, three seeds
(docs/results/multi30k.english).
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["translation"],
        reverse=("yes", "no"),
        size=("tiny", "small", "paper"),
    )
    config = base_config()
    use_dataset(config, args["data"])
    config.model.wiring = "plain"
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
    config.data.source_vocab.size, config.data.target_vocab.size = 160_000, 80_000
    config.model.dropout = 0.0
    config.model.dtype = "bfloat16"
    config.model.init_scale = 0.08
    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = 0.7
    config.optimizer.schedule = "halving"
    config.optimizer.halve_from, config.optimizer.halve_every = 5.0, 0.5
    config.train.epochs = 7.5
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": recipes.small, "paper": _paper}
