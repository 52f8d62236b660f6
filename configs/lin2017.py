"""Lin et al. 2017, A Structured Self-attentive Sentence Embedding.

    python train.py --config=configs/lin2017.py:data=sst2 --config.data.dir=path/to/sst \
        --workdir=runs/sst2

Arguments: data (classification names of configs/datasets.py), pooling (attention, max, mean, last),
size (small, paper). Hops r are --config.model.hops, the penalty's factor --config.train.penalty.

Measured on the test split, without pretrained vectors, seeds 0, 1 and 2:

    data=sst2                         81.1 ± 0.8 % right, pooling=max 81.3 ± 0.4: the hops are for
                                      looking at, here (docs/results: lin2017.hops)
    data=sst5                         41.6 ± 0.8 %, pooling=max 41.0 ± 1.0 (lin2017.hops.sst5)

`paper` has the paper's r = 30 and d_a = 350 (64.21 % on Yelp; a max-pooled BiLSTM has 61.99); the
rest of it is from memory. Not run here.
"""

from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["classification"],
        pooling=("attention", "max", "mean", "last"),
        size=("small", "paper"),
    )
    config = base_config("sentence")
    use_dataset(config, args["data"])
    config.model.pooling = args["pooling"]
    SIZES[args["size"]](config)
    if args["pooling"] != "attention":
        config.train.penalty = 0.0
    return config.lock()


def _small(config: Config) -> None:
    model = config.model
    model.features, model.embedding, model.hidden = 150, 150, 0
    model.hops, model.attention_features = 4, 64
    model.dropout = 0.5
    config.data.batch_size, config.data.buckets = 64, 4
    config.train.penalty, config.train.word_dropout = 0.1, 0.2
    config.optimizer.name, config.optimizer.weight_decay = "adamw", 0.01
    config.optimizer.learning_rate = 1e-3
    config.optimizer.clip_norm = 1.0
    config.optimizer.schedule, config.optimizer.warmup_steps = "cosine", 50
    config.train.epochs, config.train.eval_every = 6.0, 100
    config.train.eval_metric = "accuracy"


def _paper(config: Config) -> None:
    """The Yelp and Age recipe: r = 30, d_a = 350, u = 300, 100-dimensional vectors."""
    config.model.hidden = 3000
    config.model.dropout = 0.5
    config.data.batch_size = 32
    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = 0.06
    config.optimizer.clip_norm = 0.5
    config.train.penalty = 1.0
    config.train.eval_metric = "accuracy"


SIZES = {"small": _small, "paper": _paper}
