"""Toshniwal & Livescu 2016, Jointly Learning to Align and Convert Graphemes to Phonemes.

    python train.py --config=configs/toshniwal2016.py:align=local_m,size=small \
        --config.data.dir=path/to/cmudict --workdir=runs/cmudict
    python eval.py --workdir=runs/cmudict

These commands take about three minutes on one H200 and reach a word error rate of 21.2 % (mean of
five seeds, docs/results/toshniwal2016.cmudict).

Arguments (the first value is the default; docs/configuration.md has all values of named fields):
    data   cmudict, or another translation corpus of configs/datasets.py
    align  alignment (model.attention.align): global, none, local_m, local_p or hard
    size   tiny or small

The model of luong2015.py, with a bidirectional encoder, converts the spelling of a word to
phonemes. There is no size=paper, because the paper's recipe was not available. The paper reports
word error rates of 21.69, 21.39 and 22.83 % for global, local-m and local-p attention (from memory
of the paper), and 20.24 % for an ensemble of five models.

Result pages in docs/results: toshniwal2016.cmudict.
"""

from configs import luong2015, recipes
from configs.arguments import parse
from configs.base import Config, choices
from configs.datasets import DATASETS
from configs.schema.seq2seq import MARGINALIZING


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    aligns = choices("seq2seq", "model.attention.align")
    args = parse(
        arguments,
        data=dict.fromkeys(["cmudict", *DATASETS["translation"]]),
        align=[name for name in aligns if name not in MARGINALIZING],
        size=SIZES,
    )
    given = ",".join(f"{name}={args[name]}" for name in ("data", "align", "size"))
    config = luong2015.get_config(given)
    SIZES[args["size"]](config)
    return config


def _tiny(config: Config) -> None:
    """Leave the recipe of luong2015.py unchanged."""


def _small(config: Config) -> None:
    """Set a wider model, and larger batches because words are short."""
    config.model.encoder.features = config.model.decoder.features = 1024
    recipes.make_bidirectional(config)
    config.data.batch_size, config.data.buckets = 512, 4
    config.model.dropout = 0.4
    config.train.epochs, config.train.eval_every = 30.0, 1095  # 1095 steps are 5 epochs
    config.train.eval_metric = "exact"
    config.decode.beam = 5


SIZES = {"tiny": _tiny, "small": _small}
