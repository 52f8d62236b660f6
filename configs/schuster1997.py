"""Schuster & Paliwal 1997, Bidirectional Recurrent Neural Networks.

    python train.py --config=configs/schuster1997.py:network=brnn,data=series --workdir=runs/brnn
    python eval.py --workdir=runs/brnn

These commands take half a minute on two CPU cores and reach a mean squared error of about 4e-5
(docs/results/schuster1997.series). `python reproduce.py schuster1997.series` compares all networks.

Arguments (the first value is the default; docs/configuration.md has all values of named fields):
    data     series, or another labelling corpus of configs/datasets.py
    network  brnn, mlp, tdnn, forward, backward or merged; for music, forward is the default and
             the only valid value
    cell     cell of the recurrent networks (model.cell): elman, lstm, gru or gru_reset_after
    size     tiny or small

--config.model.forward_delay and --config.model.backward_delay set the delays of unidirectional
networks, and --config.model.window sets the window of mlp and tdnn. For series, both sizes have the
same recipe. For CoNLL-2000, other text in columns, and
music, `tiny` is a smaller recipe for CPUs.

Chunking of CoNLL-2000 and prediction of the next frame of music:

    python train.py --config=configs/schuster1997.py:data=conll2000,cell=lstm,size=small \
        --config.data.dir=path/to/conll2000 --workdir=runs/conll
    python train.py --config=configs/schuster1997.py:data=nottingham,cell=gru,size=small \
        --config.data.dir=path/to/polymusic --workdir=runs/nottingham

The first command takes five minutes on one H200 and reaches an F1 of 93.7 %
(docs/results/conll2000.md). The network reads words, part-of-speech tags, suffixes and characters.
CoNLL-2000 has no validation split, so one training sentence in twenty is held out. Its test split
contains the label I-LST, which the training split lacks. For every chunk type X, both labels B-X
and I-X are therefore known; any other label that is not in the training split is an error. The
second command takes about three minutes and reaches −log p = 3.31 per frame
(docs/results/bai2018.nottingham).

Result pages in docs/results: schuster1997.series, schuster1997.classes, conll2000.md, bai2018.jsb,
bai2018.nottingham.
"""

from configs.arguments import parse
from configs.base import Config, base_config, choices
from configs.datasets import DATASETS, use_dataset
from configs.recipes import set_cosine


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    music = any(f"data={name}" in arguments for name in _MUSIC)
    args = parse(
        arguments,
        data=DATASETS["labelling"],
        # Music needs a forward network: others would read the frames that they have to predict.
        network=choices("tagger", "model.network", first="forward" if music else ""),
        cell=choices("tagger", "model.cell", first="elman"),
        size=SIZES,
    )
    config = base_config("tagger")
    use_dataset(config, args["data"])
    config.model.network, config.model.cell = args["network"], args["cell"]
    config.optimizer.clip_norm = 1.0
    _RECIPES[args["data"]](config)
    SIZES[args["size"]](config)
    return config.lock()


def _series(config: Config) -> None:
    config.model.features = 32
    if config.model.network == "tdnn":
        # Two TDNN layers with a window of 5 read as many time steps as an MLP with a window of 10.
        config.model.layers, config.model.window = 2, 5
    config.data.batch_size, config.data.batch_multiple, config.data.buckets = 24, 8, 1
    set_cosine(config, rate=0.003, warmup=50)
    config.train.steps, config.train.eval_every = 1500, 500


def _columns(config: Config) -> None:
    config.data.inputs = ("word", "suffix", "characters")
    config.data.vocab.lowercase = True
    config.data.vocab.min_count = 2
    config.data.batch_size, config.data.buckets = 32, 4
    config.model.layers, config.model.features = 2, 200
    config.model.small_embedding = 50
    config.model.dropout = 0.5
    set_cosine(config, rate=0.002, warmup=100)
    config.train.epochs, config.train.eval_every = 10.0, 267
    config.train.eval_metric = "accuracy"


def _conll2000(config: Config) -> None:
    _columns(config)
    config.data.inputs = ("word", "pos", "suffix", "characters")
    config.train.eval_metric = "f1"


def _music(config: Config) -> None:
    config.data.batch_size, config.data.buckets = 16, 4
    config.model.features, config.model.dropout = 512, 0.15
    set_cosine(config, rate=0.001 if config.model.cell == "elman" else 0.004, warmup=100)
    config.train.steps, config.train.eval_every = 2500, 250


def _jsb(config: Config) -> None:
    """Set a smaller model and more dropout than for other music, because JSB is a small corpus."""
    _music(config)
    config.model.features, config.model.dropout = 256, 0.3
    config.optimizer.learning_rate = 0.003
    config.train.steps, config.train.eval_every = 2000, 100


_MUSIC = {"jsb": _jsb, "nottingham": _music, "piano_midi": _music, "musedata": _music}
_RECIPES = {
    "series": _series,
    "series_classes": _series,
    "conll2000": _conll2000,
    "columns": _columns,
    **_MUSIC,
}


def _tiny(config: Config) -> None:
    """Reduce the number of units and training steps of the corpus's recipe, for two CPU cores."""
    if config.data.corpus == "columns":
        config.model.layers, config.model.features = 1, 64
        config.model.dropout = 0.3
        config.train.epochs = 2.0
    elif config.data.corpus == "polymusic":
        config.model.features = 64
        config.train.steps, config.train.eval_every = 500, 100


def _small(config: Config) -> None:
    """Leave the corpus's recipe unchanged."""


SIZES = {"tiny": _tiny, "small": _small}
