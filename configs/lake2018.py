"""Lake & Baroni 2018, Generalization without Systematicity: the SCAN commands.

    python train.py --config=configs/lake2018.py:model=bahdanau,data=scan_simple \
        --config.data.dir=path/to/scan --workdir=runs/scan
    python eval.py --workdir=runs/scan

These commands took six and two minutes on two CPU cores that other programs also used, and reached
an exact match of 99.98 % (seed 0, docs/results/tiny.md).

Arguments (the first value is the default):
    data   scan_simple, scan_length, scan_jump or scan_turn_left, or another translation corpus of
           configs/datasets.py, such as dates_long
    model  lstm (two layers of 200 units, no attention: the paper's best network over all splits),
           lstm_attention (one layer of 100 units: the best on scan_jump) or
           gru_attention (one layer of 50 units: the best on scan_length), all with the paper's
           dropout; or a model of another config file: sutskever, cho, bahdanau, luong (global
           attention), local_m, local_p, hard, marginal, mino or transformer
    size   tiny, small or paper

Commands such as "jump around left twice" are translated to sequences of actions. One recipe per
size trains all models, so that they can be compared. It starts from the size=tiny of their config
files, whose exact match on the held-out training commands is 100 % after 1,500 of 2,000 training
steps (model=bahdanau, seed 0). `small` has 256 units instead of 64 (or 128). Its learning rate and
dropout are a first choice. configs/sweeps/lake2018_recipe.py compares them with others on held-out
training commands; it has not been run for this size. The recipe is never chosen on a test split.

`paper` is the paper's recipe: 100,000 training steps with one example each, Adam with a learning
rate of 0.001, gradients clipped to norm 5. Models that the paper does not have get 200 units and a
dropout of 0.5. The paper feeds the network its own output in half of the training steps; here, the
decoder always reads the target prefix. The widths and the recipe are quoted from memory of the
paper and from the README and the scripts of a reimplementation (github.com/vesteinn/SCAN).

On scan_length, size=tiny has an exact match of 58.9 ± 15.6 % with model=bahdanau and 66.0 ± 13.0 %
with model=hard (three seeds, docs/results/lake2018.length/page.md). size=small has 99.5 to 100 % on
scan_simple and 0 to 1.8 % on scan_jump (means over three seeds, docs/results/lake2018.simple/
page.md and docs/results/lake2018.jump/page.md).

Published exact match (from memory): scan_simple 99.8 %, scan_length 20.8 %, scan_turn_left 90.3 %,
scan_jump 1.2 %, each with the best network for the split.
"""

from types import ModuleType

from configs import (
    bahdanau2015,
    cho2014,
    luong2015,
    mino2017,
    recipes,
    sutskever2014,
    vaswani2017,
    xu2015,
)
from configs.arguments import parse
from configs.base import Config
from configs.datasets import DATASETS

# Config file and arguments of each model.
_ARCHITECTURES: dict[str, tuple[ModuleType, str]] = {
    "lstm": (sutskever2014, "reverse=no"),
    "lstm_attention": (bahdanau2015, ""),
    "gru_attention": (bahdanau2015, ""),
    "sutskever": (sutskever2014, ""),
    "cho": (cho2014, ""),
    "bahdanau": (bahdanau2015, ""),
    "luong": (luong2015, ""),
    "local_m": (luong2015, "align=local_m"),
    "local_p": (luong2015, "align=local_p"),
    "hard": (xu2015, "attention=hard"),
    "marginal": (luong2015, "align=marginal,feed=no"),
    "mino": (mino2017, "keys=split"),
    "transformer": (vaswani2017, "norm=pre"),
}
# Layers, units, cell and dropout of the paper's networks.
_NETWORKS: dict[str, tuple[int, int, str, float]] = {
    "lstm": (2, 200, "lstm", 0.5),
    "lstm_attention": (1, 100, "lstm", 0.1),
    "gru_attention": (1, 50, "gru", 0.5),
}


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    corpora = dict.fromkeys(["scan_simple", *DATASETS["translation"]])
    args = parse(arguments, data=corpora, model=_ARCHITECTURES, size=SIZES)
    module, given = _ARCHITECTURES[args["model"]]
    config = module.get_config(",".join(filter(None, (f"data={args['data']},size=tiny", given))))
    SIZES[args["size"]](config)
    if args["model"] in _NETWORKS:
        _set_network(config, *_NETWORKS[args["model"]])
    if args["model"] in ("local_m", "local_p"):
        # With the default D = 10, a window would contain all of a SCAN command.
        config.model.attention.D = 4
    config.train.eval_metric = "exact"
    return config.lock()


def _set_network(config: Config, layers: int, units: int, cell: str, dropout: float) -> None:
    """Set the sizes of one of the paper's networks, whose encoders are unidirectional."""
    recipes.set_stacks(config, layers, units, cell)
    config.model.encoder.bidirectional, config.model.bridge = False, "copy"
    config.model.decoder.maxout = units
    config.model.dropout = dropout


def _tiny(config: Config) -> None:
    config.data.buckets = 4
    config.train.steps, config.train.eval_every = 2000, 500


def _small(config: Config) -> None:
    _set_width(config, 256)
    config.model.dropout = 0.1
    config.data.batch_size, config.data.buckets = 128, 4
    config.optimizer.learning_rate = 0.001 if config.model.name == "transformer" else 0.002
    config.train.steps, config.train.eval_every = 5000, 1000
    config.decode.batch = 512


def _paper(config: Config) -> None:
    _set_width(config, 200)
    config.model.dropout = 0.5
    config.data.batch_size, config.data.batch_multiple, config.data.buckets = 1, 1, 6
    config.optimizer.learning_rate, config.optimizer.clip_norm = 0.001, 5.0
    config.optimizer.schedule, config.optimizer.warmup_steps = "constant", 0
    config.train.loss_per = "sentence"
    config.train.steps, config.train.eval_every = 100_000, 10_000
    config.decode.batch = 512


def _set_width(config: Config, width: int) -> None:
    """Set the width of a model; both directions of an encoder together have this width."""
    model = config.model
    if model.name == "transformer":
        model.features, model.feed_forward = width, 2 * width
        return
    model.decoder.maxout = width
    for stack in (model.encoder, model.decoder):
        stack.features = stack.embedding = width
    if model.encoder.bidirectional:
        model.encoder.features //= 2


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
