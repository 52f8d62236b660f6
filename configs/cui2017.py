"""Cui et al. 2017, Attention-over-Attention Neural Networks for Reading Comprehension.

    python train.py --config=configs/cui2017.py:data=novels_ne --config.data.dir=path/to/cloze \
        --workdir=runs/cloze

Arguments: data (cloze names of configs/datasets.py), reader (attention_over_attention,
attention_sum: the baseline of Kadlec 2016), size (small, paper).

Measured on the test split, on an H200 (novels_ne: docs/results, cui2017.readers; novels_cn at
commit 68503d8, under 6 min beside seven other trainings); the last column is the candidate that the
passage names most often, which eval.py prints as most_frequent:

    data=                      over attention   sum            most frequent
    novels_ne (3 seeds)        49.7 ± 1.5 %     28.5 ± 0.4 %   32.2 %
    novels_cn (seeds 0, 1)     36.5, 36.7 %     31.3, 34.9 %   25.0 %

There are 11,093 and 18,026 questions to learn from, a tenth of the Children's Book Test, where the
paper has 72.0 and 69.4 %. Two thirds of the answers of novels_ne's test are no answer in training.
Read by embeddings of their own, names are learnt by heart and both readers stay under the most
frequent candidate (27.7 and 21.0 % at commit b3e2e7f, --config.data.anonymous=none); so candidates
of novels_ne, and unknown words of novels_cn, have ids that each question draws anew. The weights β
then fall on the blank itself.

`paper`'s sizes are from memory.
"""

from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["cloze"],
        reader=("attention_over_attention", "attention_sum"),
        size=("small", "paper"),
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


def _small(config: Config) -> None:
    config.model.features, config.model.embedding = 128, 128
    config.model.dropout = 0.2
    config.data.batch_size = 64
    config.optimizer.schedule, config.optimizer.warmup_steps = "cosine", 100
    config.train.steps, config.train.eval_every = 850, 85


def _paper(config: Config) -> None:
    config.model.features, config.model.embedding = 256, 384
    config.data.batch_size = 32
    config.train.epochs, config.train.eval_every = 10.0, 1000


SIZES = {"small": _small, "paper": _paper}
