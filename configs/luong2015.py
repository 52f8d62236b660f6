"""Luong, Pham & Manning 2015, Effective Approaches to Attention-based Neural Machine Translation.

    python train.py --config=configs/luong2015.py:score=general,align=global,data=dates \
        --workdir=runs/luong
    python eval.py --workdir=runs/luong

These commands take about two minutes on two CPU cores and reach an exact match of 100 %
(docs/results/dates.md).

Arguments (the first value is the default; docs/configuration.md has all values of named fields):
    data     dates, or another translation corpus of configs/datasets.py
    align    alignment (model.attention.align): global, none (the paper's baseline), local_m,
             local_p, hard, or marginal (the exact marginal likelihood of Deng 2018, which needs
             feed=no)
    score    attention score (model.attention.score): general, dot, scaled_dot, concat or location
    feed     yes, or no (without input feeding)
    size     tiny, small or paper
    reverse  auto: the encoder and the source order that `size` defines;
             yes: unidirectional encoder, reversed source;
             no: unidirectional encoder, source in its original order
    encoder  auto: the encoder that `size` and `reverse` define; bidirectional: half of the units
             read the source in each direction
    dropout  yes, or no (dropout rate of 0)

--config.model.attention.D sets the half-width D of the window of local attention. With
--config.model.attention.clamp=False, local_m uses the paper's p_t = t for all target positions;
docs/differences.md lists the differences from the paper.

`paper` is the paper's recipe: a 4 × 1000 LSTM, reversed source, dropout of 0.2, initial parameters
from U(−0.1, 0.1), SGD with a learning rate of 1 that is halved every epoch after the eighth, 12
epochs, gradients clipped to norm 5, batches of 128 sentences, D = 10. With dropout=no it trains for
10 epochs and halves after the fifth. The paper reports 19.0 BLEU on WMT'14 English–German
newstest2014 (Table 1, without replacement of unknown words).

Result pages in docs/results: luong2015.table1, luong2015.table3, luong2015.table4,
luong2015.table6, luong2015.figure6, multi30k.english, multi30k.german, multi30k.french,
xu2015.table, jain2019.translation.
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config, choices
from configs.datasets import DATASETS, use_dataset

ENCODERS = ("auto", "bidirectional")


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    args = parse(
        arguments,
        data=DATASETS["translation"],
        align=choices("seq2seq", "model.attention.align"),
        score=choices("seq2seq", "model.attention.score"),
        feed=recipes.YES_NO,
        size=SIZES,
        reverse=("auto", *recipes.YES_NO),
        encoder=ENCODERS,
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
    if args["encoder"] == "bidirectional" and not model.encoder.bidirectional:
        recipes.make_bidirectional(config)
    if args["dropout"] == "no":
        model.dropout = 0.0
        if args["size"] == "paper":
            config.train.epochs, config.optimizer.halve_from = 10.0, 5.0
    return config.lock()


def _tiny(config: Config) -> None:
    recipes.tiny(config)
    recipes.make_bidirectional(config)  # unlike the paper, as it scores better at this width


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
