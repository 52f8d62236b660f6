"""Yang et al. 2016, Hierarchical Attention Networks for Document Classification.

    python train.py --config=configs/yang2016.py:data=imdb --config.data.dir=path/to/imdb \
        --workdir=runs/imdb

Arguments: data (classification names of configs/datasets.py), size (small, paper).

Measured on the test split: error 10.7 ± 0.3 % on IMDB's two labels, three seeds, 1.4 min each on
an H200 beside up to twelve other trainings (docs/results: yang2016.flat). An LSTM has 13.50 % (Dai
& Le 2015). Reviews are read to 40 sentences of 60 words, which cuts one in six. The paper's IMDB is
another, of ten ratings, where it has 49.4 % right. `paper`'s recipe is from memory, and not run
here.
"""

from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(arguments, data=DATASETS["classification"], size=("small", "paper"))
    config = base_config("han")
    use_dataset(config, args["data"])
    config.data.documents = True
    config.data.max_length, config.data.max_sentences = 60, 40
    config.train.eval_metric = "accuracy"
    SIZES[args["size"]](config)
    return config.lock()


def _small(config: Config) -> None:
    config.model.features, config.model.embedding = 100, 100
    config.model.dropout = 0.3
    config.model.dtype = "bfloat16"
    config.data.batch_size, config.data.buckets = 64, 6
    config.optimizer.learning_rate = 1e-3
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule, config.optimizer.warmup_steps = "cosine", 100
    config.train.epochs, config.train.eval_every = 4.0, 185


def _paper(config: Config) -> None:
    """50-dimensional GRUs, vectors of 200 and a context of 100; SGD with momentum .9, batch 64."""
    config.model.features, config.model.embedding = 50, 200
    config.data.batch_size = 64
    config.data.vocab.min_count = 5
    config.optimizer.name, config.optimizer.momentum = "momentum", 0.9
    config.optimizer.learning_rate = 0.1  # the paper chose its own by grid search
    config.train.epochs = 20.0


SIZES = {"small": _small, "paper": _paper}
