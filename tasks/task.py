"""What all tasks share: a prepared corpus and its batches."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Int, Key

from configs.base import Config
from data.batches import Batch, Batches, Bucket, eval_batches, plan_buckets
from data.corpus import Corpus
from data.store import Split
from data.vocabulary import PAD, UNK

Params = Any
Predicted = tuple[dict[str, Array], dict[str, Array]]  # predictions, and the attention behind them


def drop_words(words: Int[Array, "*b"], rate: float, key: Key[Array, ""]) -> Int[Array, "*b"]:
    """Replace a random share of the words by <unk>, so that a model depends on no single word."""
    dropped = jax.random.bernoulli(key, rate, words.shape) & (words != PAD)
    return jnp.where(dropped, UNK, words)


class Task:
    """A corpus and a model for it. Subclasses define init, loss, and predictions or decoding."""

    corpus: type[Corpus]
    averages: tuple[str, ...] = ()  # sums whose moving averages are passed to the loss
    counted = ""  # what losses are means over, in the plural

    def __init__(self, config: Config, vocabularies: Path | None = None):
        """Prepare the corpus; with a run's `vocabularies`, load only those."""
        corpus = self.corpus(config.data)
        self.config = config
        self.prepared = corpus.prepare() if vocabularies is None else corpus.open(vocabularies)
        self.data_name = self.prepared.folder.name  # ends in a digest of everything that shaped it

    def save_vocabularies(self, folder: Path) -> None:
        self.prepared.copy_vocabularies(folder)

    @functools.cache  # noqa: B019  (a task lives as long as its program)
    def split(self, name: str) -> tuple[Split, list[Bucket], Any]:
        """Return the examples of a split, its batch shapes, and the bucket of every example."""
        data, split = self.config.data, self.prepared.split(name)
        return split, *plan_buckets(
            split.fields, split.lengths, data.buckets, data.batch_size, data.batch_unit,
            data.batch_multiple,
        )  # fmt: skip

    def train_batches(self, seed: int = 0, host: int = 0, hosts: int = 1) -> Batches:
        return Batches(*self.split("train"), seed, host, hosts)

    def eval_batches(self, name: str, host: int = 0, hosts: int = 1) -> Iterator[Batch]:
        return eval_batches(*self.split(name), host, hosts)
