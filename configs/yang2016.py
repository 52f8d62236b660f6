"""Yang et al. 2016, Hierarchical Attention Networks for Document Classification.

    python train.py --config=configs/yang2016.py:data=imdb,size=small \
        --config.data.dir=path/to/imdb --workdir=runs/imdb

Arguments:
    data  any classification corpus of configs/datasets.py
    size  tiny, small or paper

Documents are read up to 40 sentences of 60 words (`tiny`: 12 of 30). The paper reports 49.4 %
accuracy on an IMDB corpus with ten ratings, which is not the one of configs/datasets.py. The recipe
of `paper` is from memory of the paper.

Results: docs/results (yang2016.flat).
"""

from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset
from configs.recipes import set_cosine


def get_config(arguments: str = "") -> Config:
    args = parse(arguments, data=DATASETS["classification"], size=SIZES)
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
    set_cosine(config, rate=1e-3, warmup=100)
    config.train.epochs, config.train.eval_every = 4.0, 185


def _tiny(config: Config) -> None:
    config.data.max_length, config.data.max_sentences = 30, 12
    config.model.features, config.model.embedding = 32, 32
    config.model.attention_features = 32
    config.model.dropout = 0.3
    config.data.batch_size, config.data.buckets = 64, 2
    set_cosine(config, rate=5e-3, warmup=50)
    config.train.epochs, config.train.eval_every = 1.0, 100


def _paper(config: Config) -> None:
    """50-dimensional GRUs, vectors of 200 and a context of 100; SGD with momentum .9, batch 64."""
    config.model.features, config.model.embedding = 50, 200
    config.data.batch_size = 64
    config.data.vocab.min_count = 5
    config.optimizer.name, config.optimizer.momentum = "momentum", 0.9
    config.optimizer.learning_rate = 0.1  # the paper chose its own by grid search
    config.train.epochs = 20.0


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
