"""Luong, Pham & Manning 2015, Effective Approaches to Attention-based Neural Machine Translation.

    python train.py --config=configs/luong2015.py:score=general,align=global,data=dates \
        --workdir=runs/luong

Arguments: data (any name of configs/datasets.py), align (global, local_m, local_p, none), score
(general, dot, concat, location), feed (yes, no), size (tiny, small, paper), reverse (auto, yes, no:
an encoder of one direction, as the paper's, reads the source from its end or does not; auto: as the
size has it), dropout (yes, no). The window is --config.model.attention.D.

`paper` is the paper's own recipe: 4 × 1000 LSTM, SGD from 1.0, halved every epoch after the fifth,
reversed source, U(−.1, .1), gradient norm 5, batch 128, D = 10; with dropout .2, 12 epochs and
halving after 8. It reports 19.0 BLEU at best on WMT'14 En–De newstest2014 (Table 1, without
unknown-word replacement); not run here.

Measured, test split, greedy decoding:

    data=dates (tiny)                     100.0 % exact match; 2 min with all, 2 CPU cores
    data=dates,align=none                 51.6 %: what a model of this size does without attention
    data=multi30k_de_en,size=small        39.76 ± 0.37 tokenised BLEU, three seeds
                                          (docs/results: multi30k.english)
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["translation"],
        align=("global", "local_m", "local_p", "none"),
        score=("general", "dot", "concat", "location"),
        feed=("yes", "no"),
        size=("tiny", "small", "paper"),
        reverse=("auto", "yes", "no"),
        dropout=("yes", "no"),
    )
    config = base_config()
    use_dataset(config, args["data"])
    model = config.model
    model.attention.align, model.attention.score = args["align"], args["score"]
    model.attention.input_feeding = args["feed"] == "yes" and args["align"] != "none"
    model.wiring = "plain" if args["align"] == "none" else "luong"
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
    recipes.read_both_ways(config)  # so small an encoder does better with both; the paper has one


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=4, features=1000)
    config.data.reverse_source = True
    config.data.batch_size = 128
    config.model.dtype = "bfloat16"
    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = 1.0
    config.optimizer.schedule = "halving"
    config.optimizer.halve_from = 8.0
    config.train.epochs = 12.0
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": recipes.small, "paper": _paper}
