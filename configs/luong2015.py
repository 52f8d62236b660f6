"""Luong, Pham & Manning 2015, Effective Approaches to Attention-based Neural Machine Translation.

    python train.py --config=configs/luong2015.py:score=general,align=global,data=dates \
        --workdir=runs/luong

Arguments:
    data     any translation corpus of configs/datasets.py
    align    alignment; `none` is the paper's baseline without attention
    score    score
    feed     yes or no: input feeding
    size     tiny, small or paper
    reverse  yes or no: an encoder of one direction reads the source from its end, or from its
             start; auto: as the size has it
    dropout  yes or no

The window of local attention is --config.model.attention.D.

`paper` is the paper's recipe: 4 × 1000 LSTM, SGD with learning rate 1, halved every epoch after the
eighth, 12 epochs, reversed source, U(−.1, .1), gradient norm 5, batch 128, D = 10, dropout .2
(without dropout: 10 epochs, halved after the fifth). The paper reports 19.0 BLEU on WMT'14 En–De
newstest2014 (Table 1, without replacement of unknown words).

Results: docs/results (luong2015.table1, table4, table6, figure6; multi30k.english).
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
        score=choices("seq2seq", "model.attention.score"),
        feed=recipes.YES_NO,
        size=SIZES,
        reverse=("auto", *recipes.YES_NO),
        dropout=recipes.YES_NO,
    )
    config = base_config("seq2seq")
    use_dataset(config, args["data"])
    model = config.model
    model.attention.align, model.attention.score = args["align"], args["score"]
    model.attention.input_feeding = args["feed"] == "yes" and args["align"] != "none"
    model.decoder.type = "plain" if args["align"] == "none" else "luong"
    SIZES[args["size"]](config)
    if args["reverse"] != "auto":
        config.data.reverse_source = args["reverse"] == "yes"
        model.encoder.bidirectional = False
        model.encoder.features = model.decoder.features
    if args["dropout"] == "no":
        model.dropout = 0.0
        if args["size"] == "paper":
            config.train.epochs, config.optimizer.halve_from = 10.0, 5.0
    return config.lock()


def _tiny(config: Config) -> None:
    recipes.tiny(config)
    recipes.read_both_ways(config)  # helps so narrow an encoder; the paper's has one direction


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=4, features=1000)
    config.data.reverse_source = True
    config.data.batch_size = 128
    config.model.dtype = "bfloat16"
    config.optimizer.name, config.optimizer.learning_rate = "sgd", 1.0
    config.optimizer.schedule, config.optimizer.halve_from = "halving", 8.0
    config.train.epochs = 12.0
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": recipes.small, "paper": _paper}
