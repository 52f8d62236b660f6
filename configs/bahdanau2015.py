"""Bahdanau, Cho & Bengio 2015, NMT by Jointly Learning to Align and Translate.

    python train.py --config=configs/bahdanau2015.py:data=dates --workdir=runs/bahdanau
    python eval.py --workdir=runs/bahdanau

These commands take about two minutes on two CPU cores and reach an exact match of 100 %
(docs/results/dates.md).

Arguments (the first value is the default; docs/configuration.md has all values of named fields):
    data   dates, or another translation corpus of configs/datasets.py
    align  alignment (model.attention.align): global, local_m, local_p or hard
    score  attention score (model.attention.score): concat (the paper's), dot, scaled_dot, general
           or location
    size   tiny, small or paper

The encoder is a bidirectional GRU, and the decoder attends to the encoder states before each
recurrent step. `paper` is RNNsearch-50: 1000 units in each direction, embeddings of 620, maxout of
500, a vocabulary of 30,000 words, Adadelta (ρ = 0.95, ε = 1e-6), gradients clipped to norm 1,
batches of 80 sentences, and the paper's initial parameters. The paper reports 26.75 BLEU on WMT'14
English–French (28.45 after longer training), and 17.82 BLEU for the same model without attention.

Result pages in docs/results: bahdanau2015.table1, multi30k.english, multi30k.german,
multi30k.french, jain2019.translation.
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config, choices
from configs.datasets import DATASETS, use_dataset
from configs.schema.seq2seq import MARGINALIZING


def get_config(arguments: str = "") -> Config:
    """Return the config for the arguments listed above."""
    aligns = choices("seq2seq", "model.attention.align")
    args = parse(
        arguments,
        data=DATASETS["translation"],
        align=[name for name in aligns if name not in ("none", *MARGINALIZING)],
        score=choices("seq2seq", "model.attention.score", first="concat"),
        size=SIZES,
    )
    config = base_config("seq2seq")
    use_dataset(config, args["data"])
    model = config.model
    model.decoder.type, model.bridge = "bahdanau", "backward"
    model.attention.align, model.attention.score = args["align"], args["score"]
    model.attention.input_feeding = False
    SIZES[args["size"]](config)
    return config.lock()


def _tiny(config: Config) -> None:
    recipes.tiny(config, cell="gru")
    recipes.make_bidirectional(config)


def _small(config: Config) -> None:
    recipes.small(config, cell="gru", layers=1)
    config.model.encoder.bidirectional = (
        True  # each direction of the encoder is as wide as the decoder, as in the paper
    )


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=1, features=1000, cell="gru")
    config.model.encoder.bidirectional = True
    for stack in (config.model.encoder, config.model.decoder):
        stack.embedding = 620
    recipes.set_vocabulary_sizes(config, 30_000, 30_000)
    config.data.batch_size = 80
    config.model.dropout = 0.0
    config.model.init, config.model.init_scale = "bahdanau", 1.0
    config.optimizer.name, config.optimizer.learning_rate = "adadelta", 1.0
    config.optimizer.eps, config.optimizer.clip_norm = 1e-6, 1.0
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
