"""Attention is score × alignment: models/scores.py compares, an alignment makes weights of it.

An alignment decides which source positions count, and turns their scores into weights and a
context. Scores and alignments are combined freely by the config.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from configs.schema.seq2seq import memory_width
from models.initializers import Initializers
from models.scores import SCORES, Score

NamedWeights = dict[str, Array]  # attention weights by name


def masked_softmax(
    scores: Float[Array, "*b s"], mask: Bool[Array, "*#b s"]
) -> Float[Array, "*b s"]:
    """Softmax in float32 over the unmasked positions; a row without any is all zero."""
    scores = jnp.where(mask, scores.astype(jnp.float32), -jnp.inf)
    largest = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
    unnormalized = jnp.exp(scores - jnp.where(jnp.isfinite(largest), largest, 0))
    total = unnormalized.sum(axis=-1, keepdims=True)
    return unnormalized / jnp.where(total > 0, total, 1)


@struct.dataclass
class Source:
    """What attention needs of a batch of source sentences."""

    keys: Float[Array, "b s d"]
    values: Float[Array, "b s k"]
    mask: Bool[Array, "b s"]
    expected: Bool[Array, " b"] | None = None  # sentences that read expectations, not samples


class Alignment(nn.Module):
    """Base class. With `key_value`, states are split into keys and values (Mino 2017)."""

    score: Score
    key_value: bool = False

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        """Build the alignment from `config.model.attention`."""
        return cls(score, attention.key_value == "split", **fields)

    def source(
        self, states: Float[Array, "b s k"], mask: Bool[Array, "b s"], deterministic: bool
    ) -> Source:
        keys, values = jnp.split(states, 2, axis=-1) if self.key_value else (states, states)
        return Source(self.score.keys(keys), values, mask)

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        steps: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t k"], Float[Array, "b t s"]]:
        """Return contexts and weights of the target positions `steps`."""
        raise NotImplementedError


class Global(Alignment):
    """All source positions count: a_t = softmax of the scores, c_t = Σ_s a_t(s) h̄_s."""

    def weights(self, query: Float[Array, "b t h"], source: Source) -> Float[Array, "b t s"]:
        positions = jnp.arange(source.mask.shape[1])[None, None]
        return masked_softmax(self.score(query, source.keys, positions), source.mask[:, None])

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        steps: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t k"], Float[Array, "b t s"]]:
        weights = self.weights(query, source)
        return _context(weights, source.values), weights


def _context(
    weights: Float[Array, "b t s"], values: Float[Array, "b s k"]
) -> Float[Array, "b t k"]:
    return jnp.einsum("bts,bsk->btk", weights.astype(values.dtype), values)


class Local(Alignment):
    """Only the window [p_t − D, p_t + D] counts, cut at the sentence's ends (Luong 2015 §3.2).

    The 2D + 1 positions around p_t are gathered, so that a time step costs O(D) for any source
    length; XLA removes the row of weights over the whole source where nobody reads it.
    """

    D: int = 10

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        return super().from_config(attention, score, D=attention.D, **fields)

    def center(
        self, query: Float[Array, "b t h"], source: Source, steps: Int[Array, "b t"]
    ) -> Float[Array, "b t"]:
        """Return p_t, a real number in source positions counted from 0."""
        raise NotImplementedError

    def reweight(
        self, weights: Float[Array, "b t w"], distance: Float[Array, "b t w"]
    ) -> Float[Array, "b t w"]:
        """Change the weights of a window by the distance from its center."""
        return weights

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        steps: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t k"], Float[Array, "b t s"]]:
        p = self.center(query, source, steps)[..., None]
        length = source.mask.sum(axis=1)[:, None, None]
        offsets = jnp.arange(-self.D, self.D + 1)[None, None]
        positions = jnp.round(p).astype(int) + offsets
        distance = positions - p
        inside = (jnp.abs(distance) <= self.D) & (positions >= 0) & (positions < length)
        keys, values = _gather(source.keys, positions), _gather(source.values, positions)
        weights = masked_softmax(self.score(query, keys, positions), inside)
        weights = self.reweight(weights, distance)
        context = jnp.einsum("btw,btwk->btk", weights.astype(values.dtype), values)
        return context, _scatter(weights, positions, source.mask.shape[1])


def _gather(x: Float[Array, "b s d"], positions: Int[Array, "b t w"]) -> Float[Array, "b t w d"]:
    """Return x at these positions; those outside the source give any value and must be masked."""
    return jax.vmap(lambda rows, index: rows.at[index].get(mode="clip"))(x, positions)


def _scatter(
    weights: Float[Array, "b t w"], positions: Int[Array, "b t w"], length: int
) -> Float[Array, "b t s"]:
    """Put the weights of windows into rows over the whole source."""
    columns = jnp.where(positions < 0, length, positions)  # −1 would count from the end

    def row(w: Float[Array, " w"], index: Int[Array, " w"]) -> Float[Array, " s"]:
        return jnp.zeros(length, w.dtype).at[index].add(w, mode="drop")

    return jax.vmap(jax.vmap(row))(weights, columns)


class LocalMonotonic(Local):
    """local-m: p_t = t. If t exceeds the source length by more than D, the window is empty."""

    def center(
        self, query: Float[Array, "b t h"], source: Source, steps: Int[Array, "b t"]
    ) -> Float[Array, "b t"]:
        return steps.astype(jnp.float32)


class LocalPredictive(Local):
    """local-p: p_t = S·σ(v_pᵀ tanh(W_p h_t)), and weights × exp(−(s − p_t)²/2σ²) (eqs. 9, 10).

    Only the Gaussian has a gradient with respect to p_t. Luong's code does not renormalize the
    weights after it; `renormalize` does.
    """

    sigma: float = 0.0  # 0: D/2, as in the paper
    renormalize: bool = False

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        gaussian = {"sigma": attention.sigma, "renormalize": attention.renormalize}
        return super().from_config(attention, score, **gaussian, **fields)

    @nn.compact
    def center(
        self, query: Float[Array, "b t h"], source: Source, steps: Int[Array, "b t"]
    ) -> Float[Array, "b t"]:
        init, dtype, width = self.score.initializers.score, self.score.dtype, query.shape[-1]
        hidden = jnp.tanh(nn.Dense(width, False, dtype, kernel_init=init, name="W_p")(query))
        logit = nn.Dense(1, False, dtype, kernel_init=init, name="v_p")(hidden)[..., 0]
        return source.mask.sum(axis=1)[:, None] * nn.sigmoid(logit.astype(jnp.float32))

    def reweight(
        self, weights: Float[Array, "b t w"], distance: Float[Array, "b t w"]
    ) -> Float[Array, "b t w"]:
        sigma = self.sigma or self.D / 2
        weights = weights * jnp.exp(-(distance**2) / (2 * sigma**2))
        if self.renormalize:
            total = weights.sum(axis=-1, keepdims=True)
            weights = weights / jnp.where(total > 0, total, 1)
        return weights


class Hard(Global):
    """One position is read (Xu 2015): a sample s_t ~ Categorical(α_t) in training, else the argmax.

    In training, a random half of the sentences reads the expectation instead. The collection
    "reinforce" receives the entropy of α_t, and log α_t(s_t) where a position was sampled (0
    elsewhere).
    """

    def source(
        self, states: Float[Array, "b s k"], mask: Bool[Array, "b s"], deterministic: bool
    ) -> Source:
        source = super().source(states, mask, deterministic)
        if deterministic:
            return source
        coin = jax.random.bernoulli(self.make_rng("sample"), 0.5, mask.shape[:1])
        return dataclasses.replace(source, expected=coin)

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        steps: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t k"], Float[Array, "b t s"]]:
        alpha = self.weights(query, source)
        log_alpha = jnp.log(jnp.maximum(alpha, 1e-30))
        if deterministic:
            read = jax.nn.one_hot(alpha.argmax(axis=-1), alpha.shape[-1])
        else:
            sampled = jax.random.categorical(self.make_rng("sample"), log_alpha)
            read = jax.nn.one_hot(sampled, alpha.shape[-1])
            assert source.expected is not None
            expected = source.expected[:, None, None]
            log_p = jnp.where(expected[..., 0], 0, (read * log_alpha).sum(axis=-1))
            entropy = -(alpha * log_alpha).sum(axis=-1)
            self.sow("reinforce", "log_p", log_p)
            self.sow("reinforce", "entropy", entropy)
            read = jnp.where(expected, alpha, read)
        return _context(read, source.values), alpha


ALIGNMENTS: dict[str, type[Alignment]] = {
    "global": Global,
    "local_m": LocalMonotonic,
    "local_p": LocalPredictive,
    "hard": Hard,
}


def make_alignment(model: Config, initializers: Initializers, dtype: DTypeLike) -> Alignment:
    """Build the attention that `config.model` of a seq2seq model describes."""
    attention = model.attention
    score = SCORES[attention.score].from_config(
        attention,
        query_width=model.decoder.features,
        key_width=memory_width(model) // (2 if attention.key_value == "split" else 1),
        initializers=initializers,
        dtype=dtype,
        zero_half=attention.key_value == "zero",
    )
    return ALIGNMENTS[attention.align].from_config(attention, score)
