"""What all tasks have alike: a prepared corpus and its batches."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from configs.base import Config
from data.batches import Batch, Batches, Bucket, eval_batches, plan_buckets
from data.store import Prepared, Split
from data.vocabulary import PAD, UNK

Params = Any
Predicted = tuple[dict[str, Array], dict[str, Array]]  # what is predicted, and what was looked at


def drop_words(words: Array, rate: float, key: Array) -> Array:
    """Words with a share of them unknown, so that a model learns to do without any one."""
    dropped = jax.random.bernoulli(key, rate, words.shape) & (words != PAD)
    return jnp.where(dropped, UNK, words)


class Task:
    averages: tuple[str, ...] = ()  # sums whose moving averages the loss is given
    counted = ""  # what losses are means over, in the plural

    def __init__(self, config: Config, prepared: Prepared):
        self.config, self.prepared = config, prepared
        self.data_name = prepared.folder.name  # with the digest of all that shaped it

    def save_vocabularies(self, folder: Path) -> None:
        self.prepared.copy_vocabularies(folder)

    @functools.cache  # noqa: B019  (a task lives as long as its program)
    def split(self, name: str) -> tuple[Split, list[Bucket], Any]:
        data, split = self.config.data, self.prepared.split(name)
        return split, *plan_buckets(
            split.fields, split.lengths, data.buckets, data.batch_size, data.batch_unit,
            data.batch_multiple,
        )  # fmt: skip

    def train_batches(self, seed: int = 0, host: int = 0, hosts: int = 1) -> Batches:
        return Batches(*self.split("train"), seed, host, hosts)

    def eval_batches(self, name: str, host: int = 0, hosts: int = 1) -> Iterator[Batch]:
        return eval_batches(*self.split(name), host, hosts)
