"""Alignments: turn attention scores into attention weights and a context vector.

Attention is a score combined with an alignment. A score (models/scores.py) compares a decoder state
with source positions. An alignment selects source positions and normalizes their scores to weights.
The config can combine any score with any alignment.
"""

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
from models.output import log_weights
from models.replacement import replaced
from models.scores import SCORES, Score

NamedWeights = dict[str, Array]  # attention weights by name


def masked_softmax(
    scores: Float[Array, "*b s"], mask: Bool[Array, "*#b s"]
) -> Float[Array, "*b s"]:
    """Compute a float32 softmax over the positions where `mask` is true.

    Masked positions have weight 0, and a row without unmasked positions is all zeros.
    """
    scores = jnp.where(mask, scores.astype(jnp.float32), -jnp.inf)
    largest = jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True))
    unnormalized = jnp.exp(scores - jnp.where(jnp.isfinite(largest), largest, 0))
    total = unnormalized.sum(axis=-1, keepdims=True)
    return unnormalized / jnp.where(total > 0, total, 1)


@struct.dataclass
class Source:
    """Keys, values and mask of a batch of encoded source sentences."""

    keys: Float[Array, "b s d"]
    values: Float[Array, "b s k"]
    mask: Bool[Array, "b s"]


@struct.dataclass
class Attended:
    """Context vectors and attention weights for the given target positions.

    There is one context vector per target position, or n of them [b, t, n, k]. With `mixture`, the
    output distribution is the mixture of those that the n context vectors give.
    """

    contexts: Float[Array, "b #t *n k"]
    weights: Float[Array, "b t s"]
    mixture: Float[Array, "b t n"] | None = None


class Alignment(nn.Module):
    """Base class of alignments.

    With `key_value`, the first half of each encoder state is the key and the second half is the
    value (Mino 2017).
    """

    score: Score
    key_value: bool = False

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        """Build the alignment from `config.model.attention`."""
        return cls(score, attention.key_value == "split", **fields)

    def source(self, states: Float[Array, "b s k"], mask: Bool[Array, "b s"]) -> Source:
        """Compute the attention keys and values of a batch once, before decoding."""
        keys, values = jnp.split(states, 2, axis=-1) if self.key_value else (states, states)
        return Source(self.score.keys(keys), values, mask)

    def normalize(
        self, scores: Float[Array, "b t s"], mask: Bool[Array, "b #t s"]
    ) -> Float[Array, "b t s"]:
        """Return attention weights, which are zero where `mask` is False."""
        return masked_softmax(scores, mask)

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        target_positions: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> Attended:
        """Return context vectors and attention weights for the given target positions."""
        raise NotImplementedError


class Global(Alignment):
    """Global attention over all source positions (Luong 2015 §3.1).

    The decoder state h_t and the encoder states h̄_s give the weights a_t and the context c_t:
    a_t(s) = softmax_s(score(h_t, h̄_s)) (eq. 7), c_t = Σ_s a_t(s) h̄_s.
    """

    def weights(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        target_positions: Int[Array, "b t"],
    ) -> Float[Array, "b t s"]:
        """Return the attention weights over all source positions."""
        positions, mask = jnp.arange(source.mask.shape[1])[None, None], source.mask[:, None]
        weights = self.normalize(self.score(query, source.keys, positions), mask)
        return replaced(weights, mask, target_positions)

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        target_positions: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> Attended:
        weights = self.weights(query, source, target_positions)
        return Attended(_context(weights, source.values), weights)


def _context(
    weights: Float[Array, "b t s"], values: Float[Array, "b s k"]
) -> Float[Array, "b t k"]:
    return jnp.einsum("bts,bsk->btk", weights.astype(values.dtype), values)


class Local(Alignment):
    """Local attention over the source positions [p_t − D, p_t + D] (Luong 2015 §3.2).

    This window, whose center p_t is real-valued, is truncated at the ends of the sentence. Only the
    keys and values of 2D + 1 positions are gathered, so a time step costs O(D) for any source
    length. If the caller does not use the returned weights over the whole source, XLA removes
    their computation.
    """

    D: int = 10

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        return super().from_config(attention, score, D=attention.D, **fields)

    def center(
        self, query: Float[Array, "b t h"], source: Source, target_positions: Int[Array, "b t"]
    ) -> Float[Array, "b t"]:
        """Return the window center p_t, a real-valued source position counted from 0."""
        raise NotImplementedError

    def reweight(
        self, weights: Float[Array, "b t w"], distance: Float[Array, "b t w"]
    ) -> Float[Array, "b t w"]:
        """Modify attention weights according to their distance from the window center."""
        return weights

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        target_positions: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> Attended:
        p = self.center(query, source, target_positions)[..., None]
        length = source.mask.sum(axis=1)[:, None, None]
        offsets = jnp.arange(-self.D, self.D + 1)[None, None]
        positions = jnp.round(p).astype(int) + offsets
        distance = positions - p
        inside = (jnp.abs(distance) <= self.D) & (positions >= 0) & (positions < length)
        keys, values = _gather(source.keys, positions), _gather(source.values, positions)
        weights = self.normalize(self.score(query, keys, positions), inside)
        weights = replaced(self.reweight(weights, distance), inside, target_positions)
        context = jnp.einsum("btw,btwk->btk", weights.astype(values.dtype), values)
        return Attended(context, _scatter(weights, positions, source.mask.shape[1]))


def _gather(x: Float[Array, "b s d"], positions: Int[Array, "b t w"]) -> Float[Array, "b t w d"]:
    """Gather x at the given positions; the caller must mask positions outside the source."""
    return jax.vmap(lambda rows, index: rows.at[index].get(mode="clip"))(x, positions)


def _scatter(
    weights: Float[Array, "b t w"], positions: Int[Array, "b t w"], length: int
) -> Float[Array, "b t s"]:
    """Scatter the weights of each window into a row over the whole source."""
    # Positions before the source become `length`, an index that mode="drop" ignores; a negative
    # index would count from the end of the row.
    columns = jnp.where(positions < 0, length, positions)

    def row(w: Float[Array, " w"], index: Int[Array, " w"]) -> Float[Array, " s"]:
        return jnp.zeros(length, w.dtype).at[index].add(w, mode="drop")

    return jax.vmap(jax.vmap(row))(weights, columns)


class LocalMonotonic(Local):
    """Monotonic local attention (local-m): the window center p_t is the target position t.

    By default, p_t is at most the last source position, that of </s> (docs/differences.md).
    Without this limit, the window is empty and all weights are zero if t exceeds the last source
    position by more than D.
    """

    clamp: bool = True  # limit p_t to the last source position

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        return super().from_config(attention, score, clamp=attention.clamp, **fields)

    def center(
        self, query: Float[Array, "b t h"], source: Source, target_positions: Int[Array, "b t"]
    ) -> Float[Array, "b t"]:
        p = target_positions
        if self.clamp:
            p = jnp.minimum(p, source.mask.sum(axis=1)[:, None] - 1)
        return p.astype(jnp.float32)


class LocalPredictive(Local):
    """Predictive local attention (local-p, Luong 2015 eqs. 9 and 10).

    The window center is p_t = S·σ(v_pᵀ tanh(W_p h_t)), where S is the source length, including
    </s>, and h_t the decoder state. The softmax weights are multiplied by the Gaussian
    exp(−(s − p_t)²/2σ²), which is the only path of gradients to p_t. By default the products are
    not renormalized, as in Luong's code.
    """

    sigma: float = 0.0  # standard deviation of the Gaussian; 0 means D/2, as in the paper
    renormalize: bool = False  # divide the weights by their sum after applying the Gaussian

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        gaussian = {"sigma": attention.sigma, "renormalize": attention.renormalize}
        return super().from_config(attention, score, **gaussian, **fields)

    @nn.compact
    def center(
        self, query: Float[Array, "b t h"], source: Source, target_positions: Int[Array, "b t"]
    ) -> Float[Array, "b t"]:
        init, dtype, width = self.score.initializers.score, self.score.dtype, query.shape[-1]
        hidden = jnp.tanh(nn.Dense(width, False, dtype, kernel_init=init, name="W_p")(query))
        logit = nn.Dense(1, False, dtype, kernel_init=init, name="v_p")(hidden)[..., 0]
        relative = nn.sigmoid(logit.astype(jnp.float32))
        self.sow("auxiliary", "relative_center", relative)
        return source.mask.sum(axis=1)[:, None] * relative

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
    """Hard attention (Xu 2015 §4.1): the context is the value of a single source position.

    In training, this position s_t is sampled from the attention weights α_t of global attention.
    A second context per target position is the expectation Σ_s α_t(s) h̄_s, the context of soft
    attention; the two are not a mixture. Training also sows two values per target position in the
    collection "auxiliary": log α_t(s_t) and the entropy of α_t.

    Otherwise, there is one context for each of the `positions` positions with the largest weights,
    in descending order. The output distribution is the mixture of their distributions, and the
    decoder state only reads the first of them, the argmax.
    """

    positions: int = 1

    @classmethod
    def from_config(cls, attention: Config, score: Score, **fields: Any) -> "Alignment":
        return super().from_config(attention, score, positions=attention.positions, **fields)

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        target_positions: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> Attended:
        alpha = self.weights(query, source, target_positions)
        if deterministic:
            return self._largest(alpha, source.values)
        log_alpha = log_weights(alpha)
        sampled = jax.random.categorical(self.make_rng("sample"), log_alpha)
        choice = jax.nn.one_hot(sampled, alpha.shape[-1])
        self.sow("auxiliary", "sampled_log_p", (choice * log_alpha).sum(axis=-1))
        self.sow("auxiliary", "entropy", -(alpha * log_alpha).sum(axis=-1))
        both = jnp.stack([choice, alpha], axis=2).astype(source.values.dtype)
        return Attended(jnp.einsum("btns,bsk->btnk", both, source.values), alpha)

    def _largest(self, alpha: Float[Array, "b t s"], values: Float[Array, "b s k"]) -> Attended:
        """Attend to the source positions with the largest weights, or to all if they are fewer."""
        count = min(self.positions, alpha.shape[-1])
        largest, indices = jax.lax.top_k(alpha, count)
        contexts = jax.vmap(lambda sentence, chosen: sentence[chosen])(values, indices)
        if count == 1:
            return Attended(contexts[:, :, 0], alpha)
        normalized = jax.nn.softmax(log_weights(largest))  # divides the weights by their sum
        return Attended(contexts, alpha, mixture=normalized)


class Marginal(Global):
    """Latent alignment with the exact marginal likelihood (Deng 2018).

    There is one context per source position s: the value h̄_s, for all target positions. The output
    distribution is the mixture Σ_s α_t(s) p(y_t | h̄_s), where α_t are the attention weights of
    global attention.
    """

    def __call__(
        self,
        query: Float[Array, "b t h"],
        source: Source,
        target_positions: Int[Array, "b t"],
        deterministic: bool = True,
    ) -> Attended:
        weights = self.weights(query, source, target_positions)
        return Attended(source.values[:, None], weights, mixture=weights)


ALIGNMENTS: dict[str, type[Alignment]] = {
    "global": Global,
    "local_m": LocalMonotonic,
    "local_p": LocalPredictive,
    "hard": Hard,
    "marginal": Marginal,
}


def make_alignment(model: Config, initializers: Initializers, dtype: DTypeLike) -> Alignment:
    """Build the score and alignment of a seq2seq model from its `config.model`."""
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
