"""Translation: what a batch is, its loss, and the four calls that decoding needs."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from configs.base import Config
from data.batches import Batch, Batches, Bucket, eval_batches, plan_buckets
from data.prepare import Split, prepare
from data.vocabulary import BOS, PAD
from models.seq2seq import make_seq2seq

Params = Any

TRANSLATORS: dict[str, Callable[..., nn.Module]] = {"seq2seq": make_seq2seq}


class Translation:
    """A corpus and a translator for it, as `config` describes them."""

    def __init__(self, config: Config):
        self.config = config
        self.prepared = prepare(config.data)
        self.source, self.target = self.prepared.source, self.prepared.target
        self.model = TRANSLATORS[config.model.name](
            config.model, len(self.source), len(self.target), config.data.reverse_source
        )

    @property
    def lowercase(self) -> bool:
        """Whether the target has no capitals, so that scores must not ask for them."""
        data = self.config.data
        return (data.source_vocab if data.shared_vocab else data.target_vocab).lowercase

    # Batches.

    @functools.cache  # noqa: B019  (a task lives as long as its program)
    def split(self, name: str) -> tuple[Split, list[Bucket], Any]:
        data, split = self.config.data, self.prepared.split(name)
        return split, *plan_buckets(
            split.lengths, data.buckets, data.batch_size, data.batch_unit, data.batch_multiple
        )

    def train_batches(self, seed: int = 0, host: int = 0, hosts: int = 1) -> Batches:
        return Batches(*self.split("train"), seed, host, hosts)

    def eval_batches(self, name: str, host: int = 0, hosts: int = 1) -> Iterator[Batch]:
        return eval_batches(*self.split(name), host, hosts)

    # Training.

    def init(self, key: Array) -> Params:
        token = jnp.full((1, 1), BOS)
        return self.model.init(key, token, token != PAD, token)["params"]

    def loss(self, params: Params, batch: dict[str, Array], key: Array | None = None) -> dict:
        """Sums over target tokens; with a key, dropout acts."""
        deterministic = key is None
        rngs = {} if key is None else {"dropout": key}
        target, mask = batch["target"], batch["source"] != PAD

        def forward(model: Any) -> Array:
            memory = model.encode(batch["source"], mask, deterministic)
            return model.decode(memory, shift_right(target), deterministic)[0]

        logits = nn.apply(forward, self.model)({"params": params}, rngs=rngs)
        return cross_entropy(logits, target, self.config.train.label_smoothing)

    # Decoding.

    def encode(self, params: Params, source: Array) -> Any:
        return self._call("encode", params, source, source != PAD)

    def decode(self, params: Params, memory: Any, target: Array) -> tuple[Array, Array | None]:
        """Teacher forcing: logits for every word of `target`, and the attention behind them."""
        return self._call("decode", params, memory, shift_right(target))

    def start(self, params: Params, memory: Any) -> Any:
        return self._call("start", params, memory)

    def step(
        self, params: Params, memory: Any, state: Any, tokens: Array
    ) -> tuple[Array, Any, Array | None]:
        return self._call("step", params, memory, state, tokens)

    def _call(self, method: str, params: Params, *arguments: Any) -> Any:
        return self.model.apply({"params": params}, *arguments, method=method)


def shift_right(target: Array) -> Array:
    """The words a decoder has read when it writes each word of `target`."""
    return jnp.concatenate([jnp.full_like(target[:, :1], BOS), target[:, :-1]], axis=1)


def cross_entropy(logits: Array, target: Array, smoothing: float) -> dict[str, Array]:
    """Sums over real target tokens of the (smoothed) loss, −log p, hits, and their count.

    Label smoothing mixes the reference with the uniform distribution over the vocabulary.
    """
    real = target != PAD
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    nll = -jnp.take_along_axis(log_p, target[..., None], axis=-1)[..., 0]
    loss = (1 - smoothing) * nll - smoothing * log_p.mean(axis=-1) if smoothing else nll
    hits = logits.argmax(axis=-1) == target
    sums = {"loss": loss, "nll": nll, "accuracy": hits, "count": jnp.ones_like(nll)}
    return {name: jnp.sum(x, where=real, dtype=jnp.float32) for name, x in sums.items()}
