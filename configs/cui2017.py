"""Cui et al. 2017, Attention-over-Attention Neural Networks for Reading Comprehension.

    python train.py --config=configs/cui2017.py:data=novels_ne,size=small \
        --config.data.dir=path/to/cloze --workdir=runs/cloze
    python eval.py --workdir=runs/cloze

These commands take about two minutes on one H200 and reach an accuracy of 49.7 % (mean of three
seeds, docs/results/cui2017.readers). The candidate that occurs most often in the passage is correct
in 32.2 % of the questions.

Arguments (the first value is the default):
    data    novels_ne, or another cloze corpus of configs/datasets.py
    reader  attention_over_attention, or attention_sum (the baseline, Kadlec et al. 2016)
    size    tiny, small or paper

The candidates of novels_ne, and the unknown words of novels_cn, get ids that are drawn at random
for each question, so that the model cannot memorize names (--config.data.anonymous). The sizes of
`paper` are quoted from memory and were not checked against the paper.

Result pages in docs/results: cui2017.readers, jain2019.reading.novels_ne,
jain2019.reading.novels_cn; `tiny` is in tiny.md.
"""

from configs.arguments import parse
from configs.base import Config, base_config, choices
from configs.datasets import DATASETS, use_dataset
from configs.recipes import set_cosine


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    args = parse(
        arguments,
        data=DATASETS["cloze"],
        reader=choices("reader", "model.reader"),
        size=SIZES,
    )
    config = base_config("reader")
    use_dataset(config, args["data"])
    config.model.reader = args["reader"]
    config.data.buckets = 4
    config.optimizer.learning_rate = 1e-3
    config.optimizer.clip_norm = 5.0
    config.train.eval_metric = "accuracy"
    SIZES[args["size"]](config)
    return config.lock()


def _tiny(config: Config) -> None:
    config.model.features, config.model.embedding = 32, 32
    config.data.batch_size, config.data.buckets = 16, 2
    set_cosine(config, rate=5e-3, warmup=50, clip_norm=5.0)
    config.train.steps, config.train.eval_every = 400, 100


def _small(config: Config) -> None:
    config.model.features, config.model.embedding = 128, 128
    config.model.dropout = 0.2
    config.data.batch_size = 64
    set_cosine(config, rate=1e-3, warmup=100, clip_norm=5.0)
    config.train.steps, config.train.eval_every = 850, 85


def _paper(config: Config) -> None:
    config.model.features, config.model.embedding = 256, 384
    config.data.batch_size = 32
    config.train.epochs, config.train.eval_every = 10.0, 1000


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
