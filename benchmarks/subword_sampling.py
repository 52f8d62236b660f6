"""Measure how fast training batches are made with and without subword sampling.

    python -m benchmarks.subword_sampling --dir=corpora/multi30k

Read every batch of three epochs with the threads that training uses, for the settings of
configs/vaswani2017.py:size=small,data=multi30k_de_en and a SentencePiece vocabulary. Print the
number of tokens of both sides together, without padding, per second of CPU time, in the first epoch
(when every word is new) and in the last one.
"""

import itertools
import time

import numpy as np
from absl import flags

from program import run

_DIR = flags.DEFINE_string("dir", "corpora/multi30k", "Folder of the corpus Multi30k.")
_CACHE = flags.DEFINE_string("cache", "cache", "Folder for prepared corpora.")
_SIZE = flags.DEFINE_integer("size", 6000, "Size of the vocabularies.", lower_bound=1)

CASES = (("unigram", 0.0), ("unigram", 0.2), ("bpe", 0.0), ("bpe", 0.1))
EPOCHS = 3


def measure(kind: str, sampling: float) -> tuple[list[float], float]:
    """Return the tokens per CPU second of every epoch, and the share of padding in the batches."""
    from configs.vaswani2017 import get_config
    from data.batches import Batches, plan_buckets, train_iterator
    from data.sampling import plan_lengths
    from data.translation import TranslationCorpus

    data = get_config("size=small,data=multi30k_de_en").data
    data.dir, data.cache = _DIR.value, _CACHE.value
    for vocab in (data.source_vocab, data.target_vocab):
        vocab.update({"kind": kind, "size": _SIZE.value, "sampling": sampling})
    corpus = TranslationCorpus(data)
    prepared = corpus.prepare()
    split, samplers = prepared.split("train"), corpus.samplers(prepared.vocabularies)
    plan = plan_buckets(
        split.fields, plan_lengths(split, samplers), data.buckets, data.batch_size,
        data.batch_unit, data.batch_multiple,
    )  # fmt: skip
    source = Batches(split, *plan, samplers=samplers)
    batches = train_iterator(source, 0)
    speeds, used, places = [], 0, 0
    for _ in range(EPOCHS):
        start, tokens = time.process_time(), 0
        for batch in itertools.islice(batches, source.steps_per_epoch):
            tokens += sum(np.count_nonzero(batch[name]) for name in ("source", "target"))
            places += sum(batch[name].size for name in ("source", "target"))
        speeds.append(tokens / (time.process_time() - start))
        used += tokens
    return speeds, 1 - used / places


def main() -> None:
    """Print one line per kind of vocabulary and value of `sampling`."""
    for kind, sampling in CASES:
        speeds, padding = measure(kind, sampling)
        print(
            f"{kind:8} sampling={sampling:<4} first epoch {speeds[0]:>10,.0f} tokens/CPU s, last "
            f"epoch {speeds[-1]:>10,.0f} tokens/CPU s, padding {padding:.0%}"
        )


if __name__ == "__main__":
    run(main)
