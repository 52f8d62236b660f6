"""Lin et al. 2017, A Structured Self-attentive Sentence Embedding.

    python train.py --config=configs/lin2017.py:data=sst2,size=small \
        --config.data.dir=path/to/sst --workdir=runs/sst2
    python eval.py --workdir=runs/sst2

These commands take about five minutes on two CPU cores and reach an accuracy of 81.6 % (mean of
five seeds, docs/results/lin2017.hops). Without size=small they take one minute and reach 76.9 %
(docs/results/tiny.md).

Arguments (the first value is the default):
    data     sst2, or another classification corpus of configs/datasets.py
    pooling  attention (the paper's), mean, max or last
    size     tiny, small or paper

--config.model.hops sets the number r of attention hops (rows of the attention matrix A), and
--config.train.penalty sets the weight of the penalty ‖AAᵀ − I‖². No size uses pretrained word
vectors. `paper` has the paper's r = 30 and d_a = 350; the rest of this recipe is quoted from
memory. The paper reports an accuracy of 64.21 % on Yelp, and 61.99 % for a BiLSTM with max pooling.

Result pages in docs/results: lin2017.hops, lin2017.hops.sst5, yang2016.flat,
jain2019.classification.sst2, jain2019.classification.imdb.
"""

from configs.arguments import parse
from configs.base import Config, base_config, choices
from configs.datasets import DATASETS, use_dataset
from configs.recipes import set_cosine


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    args = parse(
        arguments,
        data=DATASETS["classification"],
        pooling=choices("sentence", "model.pooling"),
        size=SIZES,
    )
    config = base_config("sentence")
    use_dataset(config, args["data"])
    config.model.pooling = args["pooling"]
    config.train.eval_metric = "accuracy"
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
    set_cosine(config, rate=1e-3, warmup=50)
    config.train.epochs, config.train.eval_every = 6.0, 100


def _tiny(config: Config) -> None:
    _small(config)
    config.model.features, config.model.embedding = 50, 50
    config.model.attention_features = 32
    config.optimizer.learning_rate = 3e-3
    config.data.max_length = 100
    config.train.epochs = 3.0


def _paper(config: Config) -> None:
    """Set the recipe for Yelp and Age: r = 30, d_a = 350, u = 300, embeddings of 100."""
    config.model.hidden = 3000
    config.model.dropout = 0.5
    config.data.batch_size = 32
    config.optimizer.name, config.optimizer.learning_rate = "sgd", 0.06
    config.optimizer.clip_norm = 0.5
    config.train.penalty = 1.0


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
