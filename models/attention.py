"""Attention is score × alignment.

A score rates source positions; an alignment says which positions count and turns their ratings
into weights and a context. The two are combined freely. Queries come as [batch, target steps,
width] whether one step is asked for or a whole sentence, so that teacher forcing and decoding run
the same lines.
"""

import dataclasses
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from models.initializers import XAVIER, Initializers, with_zeros


class Score(nn.Module):
    """score(h_t, h̄_s), Luong 2015 eq. 8, with keys that are computed once a sentence.

    Keys are [b, s, d] where all positions count, and [b, t, w, d] where each step has a window.
    """

    start_weights: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32
    zero_half: bool = False  # weights of the memory's second half start at zero (Mino 2017)

    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        return states

    def __call__(
        self, query: Float[Array, "b t h"], keys: Array, positions: Int[Array, "#b #t w"]
    ) -> Float[Array, "b t w"]:
        raise NotImplementedError

    def dense(self, features: int, name: str, init: Initializer | None = None) -> nn.Dense:
        init = init or self.start_weights.score
        return nn.Dense(features, False, self.dtype, kernel_init=init, name=name)


def _products(query: Array, keys: Array) -> Float[Array, "b t w"]:
    """Inner products in float32: a bfloat16 rating of 80 would be rounded to halves."""
    dims = "btd,bwd->btw" if keys.ndim == 3 else "btd,btwd->btw"
    return jnp.einsum(dims, query, keys, preferred_element_type=jnp.float32)


class Dot(Score):
    """h_tᵀ h̄_s."""

    def __call__(self, query: Array, keys: Array, positions: Array) -> Array:
        return _products(query, keys)


class ScaledDot(Score):
    """h_tᵀ h̄_s / √d (Vaswani 2017 eq. 1)."""

    def __call__(self, query: Array, keys: Array, positions: Array) -> Array:
        return _products(query, keys) / math.sqrt(keys.shape[-1])


class General(Score):
    """h_tᵀ W_a h̄_s, with so many features of h_t."""

    features: int = 0

    @nn.compact
    def keys(self, states: Array) -> Array:
        # W_a meets the memory: one product a sentence, none a step.
        assert self.features, "the general score wants the width of h_t"
        init = self.start_weights.score
        if self.zero_half:
            init = with_zeros(init, rows=slice(states.shape[-1] // 2, None))
        return self.dense(self.features, "W_a", init)(states)

    def __call__(self, query: Array, keys: Array, positions: Array) -> Array:
        return _products(query, keys)


class Concat(Score):
    """v_aᵀ tanh(W_a [h_t; h̄_s]), with W_a kept in its two halves (Bahdanau 2015: W_a and U_a)."""

    features: int = 0
    memory_width: int = 0

    def setup(self) -> None:
        self.query_half = self.dense(self.features, "W_a_query")
        init = self.start_weights.score
        if self.zero_half:
            init = with_zeros(init, rows=slice(self.memory_width // 2, None))
        self.memory_half = self.dense(self.features, "W_a_memory", init)
        self.v_a = self.dense(1, "v_a", self.start_weights.v)

    def keys(self, states: Array) -> Array:
        return self.memory_half(states)

    def __call__(self, query: Array, keys: Array, positions: Array) -> Array:
        keys = keys[:, None] if keys.ndim == 3 else keys
        return self.v_a(jnp.tanh(self.query_half(query)[:, :, None] + keys))[..., 0]


class Location(Score):
    """W_a h_t: a rating for each of the first `max_source` positions, blind to what stands there.

    Positions beyond it cannot be rated and get no weight.
    """

    max_source: int = 0

    @nn.compact
    def __call__(self, query: Array, keys: Array, positions: Array) -> Array:
        rated = self.dense(self.max_source, "W_a")(query)
        known = (positions >= 0) & (positions < self.max_source)
        if keys.ndim == 3:  # every position in order: a slice, not a gather
            beyond = max(0, positions.shape[-1] - self.max_source)
            rated = jnp.pad(rated, ((0, 0), (0, 0), (0, beyond)))[..., : positions.shape[-1]]
        else:
            rated = jnp.take_along_axis(rated, jnp.where(known, positions, 0), axis=-1)
        return jnp.where(known, rated, -jnp.inf)


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
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


@struct.dataclass
class Source:
    """What attention keeps of a batch of source sentences."""

    keys: Float[Array, "b s d"]
    values: Float[Array, "b s k"]
    mask: Bool[Array, "b s"]
    expected: Bool[Array, " b"] | None = None  # sentences whose hard samples are expectations


class Alignment(nn.Module):
    """What the alignments share. `key_value` parts the states in two (Mino 2017)."""

    score: Score
    key_value: bool = False

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
        """Contexts and weights of target positions `steps`."""
        raise NotImplementedError


class Global(Alignment):
    """All source positions count: a_t = softmax of the scores, c_t = Σ_s a_t(s) h̄_s."""

    def weights(self, query: Array, source: Source) -> Float[Array, "b t s"]:
        positions = jnp.arange(source.mask.shape[1])[None, None]
        return masked_softmax(self.score(query, source.keys, positions), source.mask[:, None])

    def __call__(
        self, query: Array, source: Source, steps: Array, deterministic: bool = True
    ) -> tuple[Array, Array]:
        weights = self.weights(query, source)
        return _context(weights, source.values), weights


def _context(weights: Float[Array, "b t s"], values: Float[Array, "b s k"]) -> Array:
    return jnp.einsum("bts,bsk->btk", weights.astype(values.dtype), values)


class Local(Alignment):
    """Only the window [p_t − D, p_t + D] counts, cut at the sentence's ends (Luong 2015 §3.2).

    The 2D + 1 positions around p_t are gathered, so a step costs O(D) whatever the source; the
    row of weights over the whole source is made only where somebody asks for it.
    """

    D: int = 10

    def centre(self, query: Array, source: Source, steps: Array) -> Float[Array, "b t"]:
        """p_t, a real number in units of source positions counted from 0."""
        raise NotImplementedError

    def shape(self, weights: Array, distance: Array, inside: Array) -> Array:
        """The last word on the window's weights."""
        return weights

    def __call__(
        self, query: Array, source: Source, steps: Array, deterministic: bool = True
    ) -> tuple[Array, Array]:
        p = self.centre(query, source, steps)[..., None]
        length = source.mask.sum(axis=1)[:, None, None]
        offsets = jnp.arange(-self.D, self.D + 1)[None, None]
        positions = jnp.round(p).astype(int) + offsets
        distance = positions - p
        inside = (jnp.abs(distance) <= self.D) & (positions >= 0) & (positions < length)
        keys, values = _gather(source.keys, positions), _gather(source.values, positions)
        weights = masked_softmax(self.score(query, keys, positions), inside)
        weights = self.shape(weights, distance, inside)
        context = jnp.einsum("btw,btwk->btk", weights.astype(values.dtype), values)
        return context, _spread(weights, positions, source.mask.shape[1])


def _gather(x: Float[Array, "b s d"], positions: Int[Array, "b t w"]) -> Array:
    """[b, t, w, d]; positions outside the source give any value and must be masked."""
    return jax.vmap(lambda rows, index: rows.at[index].get(mode="clip"))(x, positions)


def _spread(weights: Float[Array, "b t w"], positions: Array, length: int) -> Array:
    """The window's weights in their places of a row over the whole source."""
    places = jnp.where(positions < 0, length, positions)  # −1 would count from the end

    def row(w: Array, index: Array) -> Array:
        return jnp.zeros(length, w.dtype).at[index].add(w, mode="drop")

    return jax.vmap(jax.vmap(row))(weights, places)


class LocalMonotonic(Local):
    """local-m: p_t = t. A target that outruns its source by more than D has an empty window."""

    def centre(self, query: Array, source: Source, steps: Array) -> Array:
        return steps.astype(jnp.float32)


class LocalPredictive(Local):
    """local-p: p_t = S·σ(v_pᵀ tanh(W_p h_t)), and weights × exp(−(s − p_t)²/2σ²) (eqs. 9, 10).

    The Gaussian is what lets p_t learn. Luong's code does not renormalise after it; `renormalise`
    does.
    """

    sigma: float = 0.0  # 0: D/2, the paper's
    renormalise: bool = False

    @nn.compact
    def centre(self, query: Array, source: Source, steps: Array) -> Array:
        init, dtype, width = self.score.start_weights.score, self.score.dtype, query.shape[-1]
        hidden = jnp.tanh(nn.Dense(width, False, dtype, kernel_init=init, name="W_p")(query))
        logit = nn.Dense(1, False, dtype, kernel_init=init, name="v_p")(hidden)[..., 0]
        return source.mask.sum(axis=1)[:, None] * nn.sigmoid(logit.astype(jnp.float32))

    def shape(self, weights: Array, distance: Array, inside: Array) -> Array:
        sigma = self.sigma or self.D / 2
        weights = weights * jnp.exp(-(distance**2) / (2 * sigma**2))
        if self.renormalise:
            total = weights.sum(axis=-1, keepdims=True)
            weights = weights / jnp.where(total > 0, total, 1)
        return weights


class Hard(Global):
    """One position is read (Xu 2015): in training s_t ~ Categorical(α_t), then the likeliest.

    In training, one sentence in two reads its expectation instead. Sown for REINFORCE are the
    entropy of α_t, and log α_t(s_t) where a position was drawn, 0 elsewhere.
    """

    def source(self, states: Array, mask: Array, deterministic: bool) -> Source:
        source = super().source(states, mask, deterministic)
        if deterministic:
            return source
        coin = jax.random.bernoulli(self.make_rng("sample"), 0.5, mask.shape[:1])
        return dataclasses.replace(source, expected=coin)

    def __call__(
        self, query: Array, source: Source, steps: Array, deterministic: bool = True
    ) -> tuple[Array, Array]:
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
