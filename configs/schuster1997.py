"""Schuster & Paliwal 1997, Bidirectional Recurrent Neural Networks.

    python train.py --config=configs/schuster1997.py:network=brnn,data=series --workdir=runs/brnn

Arguments: data (labelling names of configs/datasets.py), network (brnn, merged, forward, backward,
tdnn, mlp; of music, whose next frame is asked for, forward alone), cell (elman, lstm, gru). Delays
are --config.model.forward_delay and .backward_delay, the window of mlp and tdnn is
--config.model.window. `python reproduce.py schuster1997.series` compares all (docs/results).

Measured on the test split (CoNLL, one seed, at commit 68503d8, and Nottingham on an H200 beside
other trainings, the rest on 2 CPU cores):

    data=series, brnn                 mean squared error 3.7e-5 (docs/results), 20 s
    data=conll2000,cell=lstm          F1 93.7 of chunks, 5 min; BiLSTMs are said to have 93 to 94
    data=jsb,cell=elman, lstm, gru    −log p a frame 8.83, 8.45, 8.57 (docs/results: bai2018.jsb)
    data=nottingham                   3.50, 3.24, 3.31 (docs/results: bai2018.nottingham)
    published (Bai 2018's table)      JSB 8.91, 8.45, 8.43; Nottingham 4.05, 3.29, 3.46

CoNLL-2000's part of speech is read beside words, suffixes and letters. It has no validation split:
one sentence in twenty is held out. Its test text has a label (I-LST) that training lacks: a kind of
chunk that can begin is given both of its labels, B- and I-; any other new label is an error. Whole
commands:

    python train.py --config=configs/schuster1997.py:data=conll2000,cell=lstm \
        --config.data.dir=path/to/conll2000 --workdir=runs/conll
    python train.py --config=configs/schuster1997.py:data=nottingham,cell=gru \
        --config.data.dir=path/to/polymusic --workdir=runs/nottingham
    python eval.py --workdir=runs/conll
"""

from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    of_music = any(f"data={name}" in arguments for name in _MUSIC)
    args = parse(
        arguments,
        data=DATASETS["labelling"],
        # Only a forward network does not see the frames that it is to predict.
        network=("forward", *_OTHERS) if of_music else (*_OTHERS, "forward"),
        cell=("elman", "lstm", "gru"),
    )
    config = base_config("tagger")
    use_dataset(config, args["data"])
    config.model.network, config.model.cell = args["network"], args["cell"]
    config.optimizer.schedule, config.optimizer.warmup_steps = "cosine", 100
    config.optimizer.clip_norm = 1.0
    _RECIPES[args["data"]](config)
    return config.lock()


def _series(config: Config) -> None:
    model = config.model
    model.features = 32
    if model.network == "tdnn":
        model.layers, model.window = 2, 5  # so it sees as far as the MLP
    config.data.batch_size, config.data.batch_multiple, config.data.buckets = 24, 8, 1
    config.optimizer.learning_rate, config.optimizer.warmup_steps = 0.003, 50
    config.train.steps, config.train.eval_every = 1500, 500


def _columns(config: Config) -> None:
    config.data.inputs = ("word", "suffix", "characters")
    config.data.vocab.lowercase = True
    config.data.vocab.min_count = 2
    config.data.batch_size, config.data.buckets = 32, 4
    config.model.layers, config.model.features = 2, 200
    config.model.small_embedding = 50
    config.model.dropout = 0.5
    config.optimizer.learning_rate = 0.002
    config.train.epochs, config.train.eval_every = 10.0, 267
    config.train.eval_metric = "accuracy"


def _conll2000(config: Config) -> None:
    _columns(config)
    config.data.inputs = ("word", "pos", "suffix", "characters")
    config.train.eval_metric = "f1"


def _music(config: Config) -> None:
    config.data.batch_size, config.data.buckets = 16, 4
    config.model.features, config.model.dropout = 512, 0.15
    config.optimizer.learning_rate = 0.001 if config.model.cell == "elman" else 0.004
    config.train.steps, config.train.eval_every = 2500, 250


def _jsb(config: Config) -> None:
    """So small that it wants more restraint."""
    _music(config)
    config.model.features, config.model.dropout = 256, 0.3
    config.optimizer.learning_rate = 0.003
    config.train.steps, config.train.eval_every = 2000, 100


_OTHERS = ("brnn", "merged", "backward", "tdnn", "mlp")
_MUSIC = {"jsb": _jsb, "nottingham": _music, "piano_midi": _music, "musedata": _music}
_RECIPES = {
    "series": _series,
    "series_classes": _series,
    "conll2000": _conll2000,
    "columns": _columns,
    **_MUSIC,
}
