"""Cloze reading: which candidate of the passage fills the blank of the query."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from configs.base import Config
from data.cloze import prepare
from models.readers import make_reader
from tasks.losses import summed
from tasks.task import Params, Predicted, Task, drop_words


class Cloze(Task):
    """A corpus of questions and a reader for it, as `config` describes them."""

    counted = "questions"

    def __init__(self, config: Config):
        super().__init__(config, prepare(config.data))
        self.words = self.prepared.vocabularies["words"]
        data = config.data
        ids = len(self.words) + (data.anonymous_ids if data.anonymous != "none" else 0)
        self.model: Any = make_reader(config.model, ids)

    def init(self, key: Array) -> Params:
        word = jnp.ones((1, 1), jnp.int32)
        return self.model.init(key, word, word)["params"]

    def loss(
        self,
        params: Params,
        batch: dict[str, Array],
        key: Array | None = None,
        averages: dict[str, Array] | None = None,
    ) -> dict[str, Array]:
        """Sums over questions of −log p(answer) (Cui 2017 eq. 11), and of right answers."""
        p, _ = self._probabilities(params, batch, key)
        own = jnp.take_along_axis(p, jnp.maximum(batch["answer"] - 1, 0)[:, None], axis=1)[:, 0]
        values = {
            "loss": -jnp.log(jnp.maximum(own, 1e-30)),
            "accuracy": p.argmax(axis=1) + 1 == batch["answer"],
        }
        sums = summed(values, batch["index"] >= 0)
        return sums | {"examples": sums["count"]}

    def predict(self, params: Params, batch: dict[str, Array]) -> Predicted:
        """The likeliest candidate, from 1, and its probability; and the attention."""
        p, weights = self._probabilities(params, batch)
        return {"answer": p.argmax(axis=1) + 1, "p": p.max(axis=1)}, weights

    def _probabilities(
        self, params: Params, batch: dict[str, Array], key: Array | None = None
    ) -> tuple[Array, dict[str, Array]]:
        """Of the candidates [b, k]: the attention over a passage, summed over their places."""
        texts, rngs = (batch["passage"], batch["query"]), {}
        if key is not None:
            rngs, rate = {"dropout": key}, self.config.train.word_dropout
            keys = (jax.random.fold_in(key, i) for i in (1, 2))
            texts = [drop_words(x, rate, k) for x, k in zip(texts, keys, strict=True)]
        s, weights = self.model.apply({"params": params}, *texts, key is None, rngs=rngs)
        places = jax.nn.one_hot(batch["candidate"] - 1, self.config.data.max_candidates)
        return jnp.einsum("bn,bnk->bk", s, places), {"s": s, **weights}
