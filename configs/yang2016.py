"""Yang et al. 2016, Hierarchical Attention Networks for Document Classification.

    python train.py --config=configs/yang2016.py:data=imdb,size=small \
        --config.data.dir=path/to/imdb --workdir=runs/imdb
    python eval.py --workdir=runs/imdb

These commands reach an error rate of 10.4 % (docs/results/jain2019.classification.imdb). With
cell=gru, they take one to two minutes on one H200 and reach 10.7 % (docs/results/yang2016.flat).
Both are means of three seeds.

Arguments (the first value is the default; docs/configuration.md has all values of named fields):
    data  sst2, or another classification corpus of configs/datasets.py
    cell  cell (model.cell): gru_reset_after (the GRU of this paper), gru (of Cho 2014), elman or
          lstm
    size  tiny, small or paper

The model reads the first 40 sentences of a document, and the first 60 words of each sentence
(`tiny`: 12 sentences, 30 words). The paper reports an accuracy of 49.4 % on another IMDB corpus,
which has ten classes. The recipe of `paper` is quoted from memory and was not checked against the
paper.

Result pages in docs/results: yang2016.flat, jain2019.classification.sst2,
jain2019.classification.imdb; `tiny` is in tiny.md.
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
        cell=choices("han", "model.cell"),
        size=SIZES,
    )
    config = base_config("han")
    use_dataset(config, args["data"])
    config.data.documents = True
    config.data.max_length, config.data.max_sentences = 60, 40
    config.model.cell = args["cell"]
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
    """Set GRUs of 50 units, embeddings of 200, and SGD with momentum 0.9 and batches of 64."""
    config.model.features, config.model.embedding = 50, 200
    config.data.batch_size = 64
    config.data.vocab.min_count = 5
    config.optimizer.name, config.optimizer.momentum = "momentum", 0.9
    config.optimizer.learning_rate = 0.1  # not given in the paper, which used grid search
    config.train.epochs = 20.0


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
