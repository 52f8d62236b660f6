"""Attention is score × alignment: a score rates positions, an alignment turns ratings to weights.

Queries come as [batch, target steps, width] whether one step is asked for or a whole sentence, so
that teacher forcing and decoding run the same lines.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Bool, Float


class Score(nn.Module):
    """score(h_t, h̄_s), Luong 2015 eq. 8. `keys` is what can be computed once a sentence."""

    kernel_init: Initializer = nn.initializers.lecun_normal()
    dtype: DTypeLike = jnp.float32

    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        return states

    def __call__(
        self, query: Float[Array, "b t h"], keys: Float[Array, "b s d"]
    ) -> Float[Array, "b t s"]:
        raise NotImplementedError

    def dense(self, features: int, name: str) -> nn.Dense:
        return nn.Dense(features, False, self.dtype, kernel_init=self.kernel_init, name=name)


class Dot(Score):
    """h_tᵀ h̄_s."""

    def __call__(self, query: Array, keys: Array) -> Array:
        return jnp.einsum("bth,bsh->bts", query, keys)


class General(Score):
    """h_tᵀ W_a h̄_s."""

    @nn.compact
    def __call__(self, query: Array, keys: Array) -> Array:
        # W_a meets the query: one product a step, none for the memory.
        return jnp.einsum("btk,bsk->bts", self.dense(keys.shape[-1], "W_a")(query), keys)


class Concat(Score):
    """v_aᵀ tanh(W_a [h_t; h̄_s]), with W_a kept in its two halves."""

    features: int = 0

    def setup(self) -> None:
        self.query_half = self.dense(self.features, "W_a_query")
        self.memory_half = self.dense(self.features, "W_a_memory")
        self.v_a = self.dense(1, "v_a")

    def keys(self, states: Array) -> Array:
        return self.memory_half(states)

    def __call__(self, query: Array, keys: Array) -> Array:
        hidden = jnp.tanh(self.query_half(query)[:, :, None] + keys[:, None])
        return self.v_a(hidden)[..., 0]


class Location(Score):
    """W_a h_t: a rating for each of the first `max_source` positions, blind to what stands there.

    Positions beyond it cannot be rated and get no weight.
    """

    max_source: int = 0

    @nn.compact
    def __call__(self, query: Array, keys: Array) -> Array:
        rated = self.dense(self.max_source, "W_a")(query)
        beyond = max(0, keys.shape[1] - self.max_source)
        rated = jnp.pad(rated, ((0, 0), (0, 0), (0, beyond)), constant_values=-jnp.inf)
        return rated[..., : keys.shape[1]]


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "general": General,
    "concat": Concat,
    "location": Location,
}


def masked_softmax(
    ratings: Float[Array, "b t s"], mask: Bool[Array, "b #t s"]
) -> Float[Array, "b t s"]:
    """Softmax in float32 over the unmasked positions; a row without any is all zero."""
    ratings = jnp.where(mask, ratings.astype(jnp.float32), -jnp.inf)
    largest = jax.lax.stop_gradient(jnp.max(ratings, axis=-1, keepdims=True))
    unnormalised = jnp.exp(ratings - jnp.where(jnp.isfinite(largest), largest, 0))
    total = unnormalised.sum(axis=-1, keepdims=True)
    return unnormalised / jnp.where(total > 0, total, 1)


class Global(nn.Module):
    """All source positions count: a_t = softmax of the scores, c_t = Σ_s a_t(s) h̄_s."""

    score: Score

    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        return self.score.keys(states)

    def __call__(
        self,
        query: Float[Array, "b t h"],
        keys: Float[Array, "b s d"],
        values: Float[Array, "b s k"],
        mask: Bool[Array, "b s"],
    ) -> tuple[Float[Array, "b t k"], Float[Array, "b t s"]]:
        weights = masked_softmax(self.score(query, keys), mask[:, None])
        return jnp.einsum("bts,bsk->btk", weights.astype(values.dtype), values), weights


ALIGNMENTS: dict[str, type[Global]] = {"global": Global}
