"""Base class of tasks: a prepared corpus, its batches and a model."""

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
from data.sampling import SubwordSampler, plan_lengths
from data.store import Split
from data.vocabulary import PAD, UNK

Params = Any
Predicted = tuple[dict[str, Array], dict[str, Array]]  # predictions and attention weights, by name


def drop_words(words: Int[Array, "*b"], rate: float, key: Key[Array, ""]) -> Int[Array, "*b"]:
    """Replace a random fraction `rate` of the word ids by <unk>, except padding (word dropout)."""
    dropped = jax.random.bernoulli(key, rate, words.shape) & (words != PAD)
    return jnp.where(dropped, UNK, words)


class Task:
    """Base class of tasks, which combine a corpus with a model.

    Subclasses define `init` and `loss`. All except Translation also define `predict`.
    """

    corpus: type[Corpus]
    counted = ""  # plural name of the unit that losses are averaged over, such as "tokens"

    def __init__(self, config: Config, vocabularies: Path | None = None):
        """Prepare the corpus, or load only the `vocabularies` of a run."""
        corpus = self.corpus(config.data)
        self.config = config
        self.prepared = corpus.prepare() if vocabularies is None else corpus.open(vocabularies)
        # The folder name ends in a digest of corpus settings and files, so it identifies the data.
        self.data_name = self.prepared.folder.name

    @functools.cache  # noqa: B019  (a task exists until its program ends, so the cache may keep it)
    def split(self, name: str) -> tuple[Split, list[Bucket], Any]:
        """Return the examples of a split, its buckets, and the bucket index of every example."""
        data, split = self.config.data, self.prepared.split(name)
        lengths = plan_lengths(split, self.samplers) if name == "train" else split.lengths
        return split, *plan_buckets(
            split.fields, lengths, data.buckets, data.batch_size, data.batch_unit,
            data.batch_multiple,
        )  # fmt: skip

    @functools.cached_property
    def samplers(self) -> dict[str, SubwordSampler]:
        """The subword samplers of training batches, by field."""
        return self.corpus(self.config.data).samplers(self.prepared.vocabularies)

    def train_batches(self, seed: int = 0, host: int = 0, hosts: int = 1) -> Batches:
        """Return the shuffled training batches; every batch contains only the rows of this host."""
        return Batches(*self.split("train"), seed, host, hosts, self.samplers)

    def eval_batches(self, name: str, host: int = 0, hosts: int = 1) -> Iterator[Batch]:
        """Yield the batches of a split, each example once, with only the rows of this host."""
        return eval_batches(*self.split(name), host, hosts)
