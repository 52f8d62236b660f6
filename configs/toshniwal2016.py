"""Toshniwal & Livescu 2016, Jointly Learning to Align and Convert Graphemes to Phonemes.

    python train.py --config=configs/toshniwal2016.py:align=local_m \
        --config.data.dir=path/to/cmudict --workdir=runs/cmudict

Arguments: align (global, local_m, local_p), data (cmudict, or any name of configs/datasets.py).

Luong's attention over a bidirectional encoder spells words in phonemes (CMUdict). Words are short
and many, so batches are large. The paper's own recipe was not at hand; width and dropout were
chosen by a run each (global, 512 and 1024 wide). The paper reports word errors of 21.69, 21.39 and
22.83 % for the three alignments (from memory of it), and 20.24 % for five models together.

Measured: 21.20 ± 0.27 % (five seeds), 21.36 ± 0.10 and 21.17 ± 0.15 % (three), and 20.07 % for the
five of global attention together; beam 5, an H200 (docs/results: toshniwal2016.cmudict).
"""

from configs import luong2015, recipes
from configs.arguments import parse
from configs.base import Config
from configs.datasets import DATASETS


def get_config(arguments: str = "") -> Config:
    corpora = dict.fromkeys(["cmudict", *DATASETS["translation"]])
    args = parse(arguments, data=corpora, align=("global", "local_m", "local_p"))
    config = luong2015.get_config(f"size=small,data={args['data']},align={args['align']}")
    config.model.encoder.features = config.model.decoder.features = 1024
    recipes.read_both_ways(config)
    config.data.batch_size, config.data.buckets = 512, 4
    config.model.dropout = 0.4
    config.train.epochs, config.train.eval_every = 30.0, 1095  # five epochs
    config.train.eval_metric = "exact"
    config.decode.beam = 5
    return config
