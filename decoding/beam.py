"""Beam search over a step function; knows no model.

A sentence is done when `width` hypotheses have ended and none that goes on is, by its score so far,
better than the worst of them; or at its longest length, where those still open count as ended.
(Without penalties nothing better can come then, for log p only falls.) An end is accepted only
among the `width` likeliest continuations, so that a beam of one is greedy decoding whatever the
penalties.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from configs.base import Config
from data.vocabulary import BOS, EOS, PAD
from decoding.greedy import Step, allowed


class Hypotheses(NamedTuple):
    """The best `width` of each sentence, best first; a score of −inf marks an empty place."""

    tokens: Int[Array, "b k t"]  # with </s> where it was reached, <pad> behind it
    score: Float[Array, "b k"]  # log p and the penalties, which is what they are sorted by
    log_p: Float[Array, "b k"]
    attention: Float[Array, "b k t s"] | None


class _Search(NamedTuple):
    t: Array
    state: Any  # of the model, a row a hypothesis
    last: Int[Array, "b k"]
    alive: Hypotheses
    ended: Hypotheses
    done: Bool[Array, " b"]  # once and for all: neighbours that go on must not change a sentence


def beam_search(
    step: Step,
    state: Any,
    batch: int,
    max_length: Int[Array, " b"],
    length: int,
    settings: Config,
    min_length: Int[Array, " b"] | None = None,
    source_mask: Bool[Array, "b s"] | None = None,
) -> Hypotheses:
    """`state` and `step` are for batch × width rows, a sentence's hypotheses side by side.

    `settings` are config.decode's: beam, length_penalty, alpha, coverage (which wants the mask).
    """
    width = settings.beam
    shapes = jax.eval_shape(step, state, jnp.full(batch * width, BOS))
    attention = None
    if shapes[2] is not None:
        attention = jnp.zeros((batch, width, length, shapes[2].shape[-1]))
    tokens, worst = jnp.full((batch, width, length), PAD), jnp.full((batch, width), -jnp.inf)
    first = worst.at[:, 0].set(0)  # one beginning, not `width` equal ones
    alive, ended = (Hypotheses(tokens, p, p, attention) for p in (first, worst))
    shortest = jnp.zeros(batch, int) if min_length is None else min_length

    def finished(alive: Hypotheses, ended: Hypotheses, t: Array) -> Bool[Array, " b"]:
        worst = ended.score[:, -1]  # they are sorted
        better = alive.score.max(axis=1) > worst
        return ((worst > -jnp.inf) & ~better) | (t >= max_length)

    def advance(search: _Search) -> _Search:
        t, alive = search.t, search.alive
        logits, state, weights = step(search.state, search.last.reshape(-1))
        early = jnp.repeat(t < shortest, width)
        log_p = allowed(jax.nn.log_softmax(logits.astype(jnp.float32)), early)
        parent, word, best = _likeliest(alive.log_p, log_p.reshape(batch, width, -1))
        grown = _grow(alive, parent, word, t, best, weights)
        ends = (word == EOS) | (t + 1 >= max_length)[:, None]
        accepted = ends & (jnp.arange(2 * width)[None] < width) & ~search.done[:, None]
        ranked = penalised(grown, t + 1, settings, source_mask)
        ended = _best(search.ended, grown._replace(score=jnp.where(accepted, ranked, -jnp.inf)))
        going, places = jax.lax.top_k(jnp.where(word == EOS, -jnp.inf, best), width)
        alive = _take(grown._replace(score=ranked), places)._replace(log_p=going)
        alive = alive._replace(score=jnp.where(going > -jnp.inf, alive.score, -jnp.inf))
        state = _reorder(state, jnp.take_along_axis(parent, places, axis=1))
        last = jnp.take_along_axis(word, places, axis=1)
        done = search.done | finished(alive, ended, t + 1)
        return _Search(t + 1, state, last, alive, ended, done)

    def unfinished(search: _Search) -> Bool[Array, ""]:
        return (search.t < length) & ~search.done.all()

    begin = jnp.full((batch, width), BOS)
    search = _Search(jnp.zeros((), int), state, begin, alive, ended, max_length <= 0)
    return jax.lax.while_loop(unfinished, advance, search).ended


def _likeliest(
    so_far: Float[Array, "b k"], log_p: Float[Array, "b k v"]
) -> tuple[Int[Array, "b n"], Int[Array, "b n"], Float[Array, "b n"]]:
    """The 2 × width likeliest continuations of a sentence, best first: whose they are, their words
    and log p. Though `width` of them may be ends, as many go on."""
    count = 2 * so_far.shape[1]
    own, words = largest(log_p, min(count, log_p.shape[-1]))
    total = so_far[..., None] + own
    best, places = jax.lax.top_k(total.reshape(len(total), -1), count)
    words = jnp.take_along_axis(words.reshape(len(total), -1), places, axis=1)
    return places // own.shape[-1], words, best


def largest(
    x: Float[Array, "*b v"], count: int, block: int = 64
) -> tuple[Float[Array, "*b n"], Int[Array, "*b n"]]:
    """`jax.lax.top_k`, faster on long rows, which a GPU would sort: the largest numbers stand in
    the blocks that have the largest maxima. (Of 1,024 and more, XLA's own kernel for it is slower
    than its sort of fewer: 62 against 6 µs on an H200.)"""
    size = x.shape[-1]
    if size <= 2 * count * block:
        return jax.lax.top_k(x, count)
    short = -size % block
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, short)], constant_values=-jnp.inf)
    blocks = padded.reshape(*x.shape[:-1], -1, block)
    _, chosen = jax.lax.top_k(blocks.max(axis=-1), count)
    chosen = jnp.sort(chosen, axis=-1)  # of equals, the first counts
    found = jnp.take_along_axis(blocks, chosen[..., None], axis=-2)
    values, places = jax.lax.top_k(found.reshape(*x.shape[:-1], -1), count)
    index = jnp.take_along_axis(chosen, places // block, axis=-1) * block + places % block
    return values, index


def _take(hypotheses: Hypotheses, places: Int[Array, "b n"]) -> Hypotheses:
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, places), hypotheses)


def _reorder(state: Any, parents: Int[Array, "b k"]) -> Any:
    """Rows of the model's state by parent: within a sentence, so within the device that has it.

    What has a method `reorder` says itself which of its rows move.
    """
    batch, width = parents.shape

    def rows(x: Array) -> Array:
        own = x.reshape(batch, width, *x.shape[1:])
        return jax.vmap(lambda row, i: row[i])(own, parents).reshape(x.shape)

    def moved(part: Any) -> Any:
        return part.reorder(rows) if hasattr(part, "reorder") else rows(part)

    return jax.tree.map(moved, state, is_leaf=lambda part: hasattr(part, "reorder"))


def _grow(
    alive: Hypotheses, parent: Array, word: Array, t: Array, log_p: Array, weights: Array | None
) -> Hypotheses:
    """Each parent's hypothesis with one more word and the attention under which it was written."""
    put = jax.lax.dynamic_update_index_in_dim
    grown, attention = _take(alive, parent), None
    if weights is not None:
        weights = weights.reshape(*alive.score.shape, -1)
        now = jax.vmap(lambda row, i: row[i])(weights, parent)
        attention = put(grown.attention, now, t, axis=2)
    return Hypotheses(put(grown.tokens, word, t, axis=2), log_p, log_p, attention)


def _best(first: Hypotheses, second: Hypotheses) -> Hypotheses:
    """The best of both, as many as there are in the first."""
    both = jax.tree.map(lambda x, y: jnp.concatenate([x, y], axis=1), first, second)
    return _take(both, jax.lax.top_k(both.score, first.score.shape[1])[1])


def penalised(
    hypotheses: Hypotheses, words: Array, settings: Config, source_mask: Array | None
) -> Float[Array, "b n"]:
    """log p / lp(words) + β Σ_s log min(Σ_t α_ts, 1) (Wu 2016 eq. 14)."""
    score = hypotheses.log_p / LENGTH_PENALTIES[settings.length_penalty](words, settings.alpha)
    if settings.coverage:
        assert hypotheses.attention is not None and source_mask is not None
        read = hypotheses.attention.sum(axis=2)
        unread = jnp.log(jnp.clip(read, 1e-6, 1))
        score += settings.coverage * jnp.sum(unread, axis=-1, where=source_mask[:, None])
    return score


LENGTH_PENALTIES = {
    "none": lambda words, alpha: 1.0,
    "gnmt": lambda words, alpha: ((5 + words) / 6) ** alpha,  # Wu 2016; α .6 in Vaswani 2017
    "average": lambda words, alpha: words**alpha,  # α = 1: the mean log p a word
}
