"""Attention scores: compare decoder states with source positions.

Queries have shape [batch, target positions, width]. In decoding, the hypotheses of a sentence take
the place of the target positions, so that decoding and teacher forcing run the same code.
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

# Keys have shape [b, s, d] for global attention, and [b, t, w, d] for local attention, where every
# target position has a window of w source positions.
Query = Float[Array, "b t h"]
Keys = Float[Array, "b *s d"]
Positions = Int[Array, "#b #t w"]  # source positions, counted from 0
Logits = Float[Array, "b t w"]


class Score(nn.Module):
    """Base class of attention scores, score(h_t, h̄_s) in Luong 2015 eq. 8."""

    query_width: int
    key_width: int
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32
    zero_half: bool = False  # start with zero weights for the second half of the encoder states

    @classmethod
    def from_config(cls, attention: Config, **fields: Any) -> "Score":
        """Build the score from `config.model.attention` and the fields that all scores share."""
        return cls(**fields)

    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        """Compute the keys from encoder states, once per sentence."""
        return states

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        """Return the attention scores of the given source positions."""
        raise NotImplementedError

    def dense(self, features: int, name: str, init: Initializer | None = None) -> nn.Dense:
        """Return a dense layer without bias; `init` defaults to the initializer of scores."""
        init = init or self.initializers.score
        return nn.Dense(features, False, self.dtype, kernel_init=init, name=name)

    def key_init(self) -> Initializer:
        """Return the initializer of a matrix that multiplies encoder states."""
        init = self.initializers.score
        return with_zeros(init, slice(self.key_width // 2, None)) if self.zero_half else init


def _products(query: Float[Array, "b t d"], keys: Keys) -> Logits:
    """Compute inner products in float32; bfloat16 would round scores near 80 to multiples of .5."""
    dims = "btd,bwd->btw" if keys.ndim == 3 else "btd,btwd->btw"
    return jnp.einsum(dims, query, keys, preferred_element_type=jnp.float32)


class Dot(Score):
    """Dot product score of decoder state h_t and encoder state h̄_s: h_tᵀ h̄_s."""

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        return _products(query, keys)


class ScaledDot(Score):
    """Scaled dot product score: h_tᵀ h̄_s / √d, where d is the key width (Vaswani 2017 eq. 1)."""

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        return _products(query, keys) / math.sqrt(keys.shape[-1])


class General(Score):
    """General (bilinear) score with a learned matrix W_a: h_tᵀ W_a h̄_s."""

    @nn.compact
    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        # Apply W_a to the encoder states: one product per sentence instead of one per time step.
        return self.dense(self.query_width, "W_a", self.key_init())(states)

    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        return _products(query, keys)


class Concat(Score):
    """Concat (additive) score: v_aᵀ tanh(W_a [h_t; h̄_s]).

    W_a is stored as two blocks, one for the decoder state h_t and one for the encoder state h̄_s.
    Bahdanau 2015 calls these blocks W_a and U_a.
    """

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
    """Location-based score W_a h_t, which does not depend on the source states.

    Only the first `max_source` source positions have scores; later positions have weight 0. The
    weights of the positions that are present sum to 1 (docs/differences.md).
    """

    max_source: int = 0

    @classmethod
    def from_config(cls, attention: Config, **fields: Any) -> "Score":
        return super().from_config(attention, max_source=attention.max_source, **fields)

    @nn.compact
    def __call__(self, query: Query, keys: Keys, positions: Positions) -> Logits:
        scores = self.dense(self.max_source, "W_a")(query)
        scored = (positions >= 0) & (positions < self.max_source)
        if keys.ndim == 3:
            # Global attention uses all positions in order, so slicing can replace a slower gather.
            beyond = max(0, positions.shape[-1] - self.max_source)
            scores = jnp.pad(scores, ((0, 0), (0, 0), (0, beyond)))[..., : positions.shape[-1]]
        else:
            scores = jnp.take_along_axis(scores, jnp.where(scored, positions, 0), axis=-1)
        return jnp.where(scored, scores, -jnp.inf)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "general": General,
    "concat": Concat,
    "location": Location,
}
