"""Bahdanau, Cho & Bengio 2015, NMT by Jointly Learning to Align and Translate.

    python train.py --config=configs/bahdanau2015.py:data=dates --workdir=runs/bahdanau

Arguments: data (any name of configs/datasets.py), align (global, local_m, local_p, hard), score
(concat, dot, scaled_dot, general, location), size (tiny, small, paper).

Attention before the recurrent step, over a bidirectional GRU. `paper` is RNNsearch-50: 1000 units
each way, embeddings 620, maxout 500, vocabulary 30k, Adadelta (ρ .95, ε 1e-6), gradient norm 1,
batch 80, and the paper's own start of the weights. It reports 26.75 BLEU on WMT'14 En–Fr (28.45
trained longer), 17.82 for the same without attention; not run here.

Measured, data=dates (tiny), test split, greedy: 100.0 % exact match, alignment error 12.9 %; 1 min
33 s to train on 2 CPU cores. data=multi30k_de_en,size=small: 40.69 ± 0.12 tokenised BLEU, three
seeds (docs/results/multi30k.english).
"""

from configs import recipes
from configs.arguments import parse
from configs.base import Config, base_config
from configs.datasets import DATASETS, use_dataset


def get_config(arguments: str = "") -> Config:
    args = parse(
        arguments,
        data=DATASETS["translation"],
        align=("global", "local_m", "local_p", "hard"),
        score=("concat", "dot", "scaled_dot", "general", "location"),
        size=("tiny", "small", "paper"),
    )
    config = base_config()
    use_dataset(config, args["data"])
    model = config.model
    model.wiring, model.bridge = "bahdanau", "backward"
    model.attention.align, model.attention.score = args["align"], args["score"]
    model.attention.input_feeding = False
    SIZES[args["size"]](config)
    return config.lock()


def _tiny(config: Config) -> None:
    recipes.tiny(config, cell="gru")
    recipes.read_both_ways(config)


def _small(config: Config) -> None:
    recipes.small(config, cell="gru", layers=1)
    config.model.encoder.bidirectional = True  # as wide as the decoder each way, as in the paper


def _paper(config: Config) -> None:
    recipes.set_stacks(config, layers=1, features=1000, cell="gru")
    config.model.encoder.bidirectional = True
    for stack in (config.model.encoder, config.model.decoder):
        stack.embedding = 620
    for side in (config.data.source_vocab, config.data.target_vocab):
        side.size = 30_000
    config.data.batch_size = 80
    config.model.dropout = 0.0
    config.model.init, config.model.init_scale = "bahdanau", 1.0
    config.optimizer.name, config.optimizer.learning_rate = "adadelta", 1.0
    config.optimizer.eps, config.optimizer.clip_norm = 1e-6, 1.0
    config.train.loss_per = "sentence"
    config.train.eval_every = 5000


SIZES = {"tiny": _tiny, "small": _small, "paper": _paper}
