"""Scores: how a decoder state is compared with the positions of the source.

Queries have shape [batch, target positions, width], whether one time step is asked for or a whole
sentence, so that teacher forcing and decoding run the same code.
"""

import math
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Float, Int

from configs.base import Config
from models.initializers import XAVIER, Initializers, with_zeros

# Keys have shape [b, s, d] where all positions count, and [b, t, w, d] where each time step has a
# window of w positions.
Query = Float[Array, "b t h"]
Keys = Float[Array, "b *s d"]
Positions = Int[Array, "#b #t w"]  # of the source, counted from 0
Logits = Float[Array, "b t w"]


class Score(nn.Module):
    """score(h_t, h̄_s), Luong 2015 eq. 8. Keys are computed once per sentence."""

    query_width: int
    key_width: int
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32
    zero_half: bool = False  # rows of the keys' second half start at zero (Mino 2017)

    @classmethod
    def from_config(cls, attention: Config, **fields: Any) -> "Score":
        """Build the score from `config.model.attention` and the fields that all scores share."""
        return cls(**fields)

    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        return states

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        """Return the attention logits of these source positions."""
        raise NotImplementedError

    def dense(self, features: int, name: str, init: Initializer | None = None) -> nn.Dense:
        init = init or self.initializers.score
        return nn.Dense(features, False, self.dtype, kernel_init=init, name=name)

    def key_init(self) -> Initializer:
        """The initializer of a matrix that is applied to the source states."""
        init = self.initializers.score
        return with_zeros(init, slice(self.key_width // 2, None)) if self.zero_half else init


def _products(query: Float[Array, "b t d"], keys: Keys) -> Logits:
    """Inner products in float32, because bfloat16 would round a score of 80 to halves."""
    dims = "btd,bwd->btw" if keys.ndim == 3 else "btd,btwd->btw"
    return jnp.einsum(dims, query, keys, preferred_element_type=jnp.float32)


class Dot(Score):
    """h_tᵀ h̄_s."""

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        return _products(query, keys)


class ScaledDot(Score):
    """h_tᵀ h̄_s / √d (Vaswani 2017 eq. 1)."""

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        return _products(query, keys) / math.sqrt(keys.shape[-1])


class General(Score):
    """h_tᵀ W_a h̄_s."""

    @nn.compact
    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        # W_a is applied to the source states: one product per sentence, none per time step.
        return self.dense(self.query_width, "W_a", self.key_init())(states)

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        return _products(query, keys)


class Concat(Score):
    """v_aᵀ tanh(W_a [h_t; h̄_s]), with W_a stored as two blocks (Bahdanau 2015: W_a and U_a)."""

    def setup(self) -> None:
        self.query_half = self.dense(self.query_width, "W_a_query")
        self.memory_half = self.dense(self.query_width, "W_a_memory", self.key_init())
        self.v_a = self.dense(1, "v_a", self.initializers.v)

    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        return self.memory_half(states)

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        keys = keys[:, None] if keys.ndim == 3 else keys
        return self.v_a(jnp.tanh(self.query_half(query)[:, :, None] + keys))[..., 0]


class Location(Score):
    """W_a h_t: scores of the first `max_source` positions, independent of their content.

    Positions beyond them get no weight.
    """

    max_source: int = 0

    @classmethod
    def from_config(cls, attention: Config, **fields: Any) -> "Score":
        return super().from_config(attention, max_source=attention.max_source, **fields)

    @nn.compact
    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        scores = self.dense(self.max_source, "W_a")(query)
        known = (positions >= 0) & (positions < self.max_source)
        if keys.ndim == 3:  # all positions in order: slicing is cheaper than gathering
            beyond = max(0, positions.shape[-1] - self.max_source)
            scores = jnp.pad(scores, ((0, 0), (0, 0), (0, beyond)))[..., : positions.shape[-1]]
        else:
            scores = jnp.take_along_axis(scores, jnp.where(known, positions, 0), axis=-1)
        return jnp.where(known, scores, -jnp.inf)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "concat": Concat,
    "location": Location,
}
