"""Vaswani et al. 2017, Attention Is All You Need.

    python train.py --config=configs/vaswani2017.py:data=dates --workdir=runs/vaswani
    python eval.py --workdir=runs/vaswani

These commands take about two minutes on two CPU cores and reach an exact match of 100 %
(docs/results/dates.md).

Arguments (the first value is the default):
    data     dates, or another translation corpus of configs/datasets.py
    size     tiny, small or paper (the base model; the big model is size=paper,variant=big)
    norm     post (the paper's) or pre
    variant  none, or a row of the paper's Table 3 (a name in VARIANTS below)

`small` is a recipe for Multi30k in BPE subwords; if the source is split into characters, as in
CMUdict, it is a wider model. Evaluate the average of the latest checkpoints:

    python train.py --config=configs/vaswani2017.py:size=small,norm=pre,data=multi30k_bpe_en_de \
        --config.data.dir=path/to/multi30k_bpe --workdir=runs/multi30k_bpe
    python eval.py --workdir=runs/multi30k_bpe --checkpoint=average

These commands take about three minutes on one H200 and reach 41.0 tokenized BLEU (mean of three
seeds, docs/results/multi30k.german); LividWo/Revisit-MMT published 41.02 for the same model and
text.

`paper` is the base model. The paper reports 27.3 BLEU on WMT'14 English–German newstest2014, and
28.4 for the big model, both with beam 4 and α = 0.6. The paper averages the last 5 checkpoints of
the base model and the last 20 of the big model. With a shared vocabulary of 37,000 subwords, the
base model has 63.0 million parameters and the big model 214.2 million. No vocabulary size gives
both rounded numbers of the paper, 65 and 213 million.

Result pages in docs/results: vaswani2017.table3, multi30k.german, multi30k.english,
multi30k.french, toshniwal2016.cmudict, jain2019.translation.
"""

from configs.arguments import parse
from configs.base import Config, base_config, choices
from configs.datasets import DATASETS, use_dataset
from configs.recipes import short_text_metric, spelled


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    args = parse(
        arguments,
        data=DATASETS["translation"],
        size=SIZES,
        norm=choices("transformer", "model.norm"),
        variant=("none", *VARIANTS),
    )
    config = base_config("transformer")
    use_dataset(config, args["data"])
    config.model.norm = args["norm"]
    SIZES[args["size"]](config)
    config.model.share_embeddings = config.data.shared_vocab
    config.update_from_flattened_dict(VARIANTS.get(args["variant"], {}))
    if args["size"] == "paper":  # §5.3: the peak learning rate is d^-.5 · warmup^-.5
        config.optimizer.learning_rate = config.model.features**-0.5 * 4000**-0.5
    return config.lock()


def _set_sizes(config: Config, layers: int, features: int, heads: int, feed_forward: int) -> None:
    config.model.layers, config.model.features = layers, features
    config.model.heads, config.model.feed_forward = heads, feed_forward


def _set_optimizer(config: Config, warmup: int) -> None:
    """Set Adam, label smoothing and the schedule of §5, but not the peak learning rate."""
    config.optimizer.b2, config.optimizer.eps = 0.98, 1e-9
    config.optimizer.clip_norm = 0.0
    config.optimizer.schedule, config.optimizer.warmup_steps = "inverse_sqrt", warmup
    config.train.label_smoothing = 0.1


def _tiny(config: Config) -> None:
    _set_sizes(config, layers=2, features=64, heads=4, feed_forward=128)
    _set_optimizer(config, warmup=300)
    config.model.dropout = 0.0
    config.data.batch_size, config.data.buckets = 64, 2
    config.optimizer.learning_rate = 0.003
    config.optimizer.schedule = "cosine"
    config.train.label_smoothing = 0.0
    config.train.steps = 2000
    config.train.eval_every = 500
    config.train.eval_metric = short_text_metric(config)


def _small(config: Config) -> None:
    config.model.dtype = "bfloat16"
    config.data.batch_size, config.data.batch_unit = 4096, "tokens"
    config.train.keep = 10
    config.decode.beam = 5
    _letters(config) if spelled(config) else _sentences(config)


def _sentences(config: Config) -> None:
    """Set the recipe for captions and other short sentences."""
    _set_sizes(config, layers=4, features=128, heads=4, feed_forward=256)
    _set_optimizer(config, warmup=2000)
    config.model.dropout = 0.3
    config.data.buckets = 3
    # The value 0.002 follows from the formula in §5.3; docs/results/multi30k.german explains 0.005.
    config.optimizer.learning_rate = 0.005 if config.model.norm == "pre" else 0.002
    config.train.steps = 10_000
    config.train.eval_every = 500
    config.train.eval_metric = "bleu"
    config.decode.length_penalty, config.decode.alpha = "average", 1.0


def _letters(config: Config) -> None:
    """Set the recipe for sources in characters; see docs/results/toshniwal2016.cmudict."""
    _set_sizes(config, layers=4, features=512, heads=8, feed_forward=2048)
    _set_optimizer(config, warmup=4000)
    config.model.dropout, config.model.attention_dropout = 0.2, 0.2
    config.data.buckets = 4
    config.optimizer.learning_rate, config.optimizer.clip_norm = 0.0005, 1.0
    config.train.steps = 24_000
    config.train.eval_every = 1000
    config.train.eval_metric = "exact"


def _paper(config: Config) -> None:
    _set_optimizer(config, warmup=4000)
    config.model.dtype = "bfloat16"
    config.data.batch_size, config.data.batch_unit = 25_000, "tokens"
    config.data.max_length = 128
    if config.data.corpus in ("text", "tfds") and config.data.source_vocab.tokenizer == "moses":
        # For text that is not split into subwords yet, learn a shared BPE vocabulary (§5.1).
        config.data.source_vocab.kind, config.data.source_vocab.size = "bpe", 37_000
        config.data.shared_vocab = True
    config.train.steps = 100_000
    config.train.eval_every = 1500  # training steps; the paper saves every ten minutes instead
    config.train.keep = 5
    config.decode.beam, config.decode.length_penalty, config.decode.alpha = 4, "gnmt", 0.6
    config.decode.max_ratio, config.decode.max_extra = 1.0, 50


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}

# Changes to the base model in each row of Table 3. Published BLEU on newstest2013: base 25.8,
# h1 24.9, N2 23.7, no_dropout 24.6, no_smoothing 25.3, learned 25.7, big 26.4.
VARIANTS: dict[str, dict[str, int | float | str]] = {
    "h1": {"model.heads": 1},
    "h4": {"model.heads": 4},
    "h16": {"model.heads": 16},
    "h32": {"model.heads": 32},
    "dk16": {"model.key_features": 16},
    "dk32": {"model.key_features": 32},
    "N2": {"model.layers": 2},
    "N4": {"model.layers": 4},
    "N8": {"model.layers": 8},
    "d256": {"model.features": 256},
    "d1024": {"model.features": 1024},
    "ff1024": {"model.feed_forward": 1024},
    "ff4096": {"model.feed_forward": 4096},
    "no_dropout": {"model.dropout": 0.0},
    "dropout02": {"model.dropout": 0.2},
    "no_smoothing": {"train.label_smoothing": 0.0},
    "smoothing02": {"train.label_smoothing": 0.2},
    "learned": {"model.positions": "learned"},
    "big": {
        "model.features": 1024, "model.heads": 16, "model.feed_forward": 4096,
        "model.dropout": 0.3, "train.steps": 300_000, "train.eval_every": 600, "train.keep": 20,
    },
}  # fmt: skip
