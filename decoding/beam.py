"""Beam search over a step function, independent of the model.

The search of a sentence ends when `width` hypotheses are finished and no active one has a better
score so far than the worst of them, or at the sentence's largest length, where active hypotheses
count as finished. (Without penalties the result is final, because log p only decreases.) A
hypothesis finishes only if </s> is among the `width` most probable continuations, so that a beam of
one is greedy decoding under all penalties.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Shaped

from configs.base import Config
from data.vocabulary import BOS, EOS, PAD
from decoding.greedy import Step, allowed


class Hypotheses(NamedTuple):
    """The best `width` hypotheses of each sentence, best first; an empty slot has score −inf."""

    tokens: Int[Array, "b k t"]  # ends in </s> where it was generated, then <pad>
    score: Float[Array, "b k"]  # log p with penalties, the sort key
    log_p: Float[Array, "b k"]
    attention: Float[Array, "b k t s"] | None


class _Search(NamedTuple):
    t: Int[Array, ""]
    state: Any  # of the model, one row per hypothesis
    last: Int[Array, "b k"]
    active: Hypotheses
    finished: Hypotheses
    done: Bool[Array, " b"]  # final, even if other sentences of the batch continue


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
    """Search with `step` over batch × width rows, one per hypothesis, grouped by sentence.

    `settings` is config.decode: beam, length_penalty, alpha, coverage (which needs the mask).
    """
    width = settings.beam
    shapes = jax.eval_shape(step, state, jnp.full(batch * width, BOS))
    attention = None
    if shapes[2] is not None:
        attention = jnp.zeros((batch, width, length, shapes[2].shape[-1]))
    tokens, worst = jnp.full((batch, width, length), PAD), jnp.full((batch, width), -jnp.inf)
    first = worst.at[:, 0].set(0)  # one initial hypothesis, not `width` equal ones
    active, finished = (Hypotheses(tokens, p, p, attention) for p in (first, worst))
    shortest = jnp.zeros(batch, int) if min_length is None else min_length

    def is_done(active: Hypotheses, finished: Hypotheses, t: Int[Array, ""]) -> Bool[Array, " b"]:
        worst = finished.score[:, -1]  # they are sorted
        better = active.score.max(axis=1) > worst
        return ((worst > -jnp.inf) & ~better) | (t >= max_length)

    def advance(search: _Search) -> _Search:
        t, active = search.t, search.active
        logits, state, weights = step(search.state, search.last.reshape(-1))
        early = jnp.repeat(t < shortest, width)
        log_p = allowed(jax.nn.log_softmax(logits.astype(jnp.float32)), early)
        parent, token, best = _continuations(active.log_p, log_p.reshape(batch, width, -1))
        grown = _grow(active, parent, token, t, best, weights)
        ends = (token == EOS) | (t + 1 >= max_length)[:, None]
        accepted = ends & (jnp.arange(2 * width)[None] < width) & ~search.done[:, None]
        ranked = penalized(grown, t + 1, settings, source_mask)
        scored = grown._replace(score=jnp.where(accepted, ranked, -jnp.inf))
        finished = _best(search.finished, scored)
        going, slots = jax.lax.top_k(jnp.where(token == EOS, -jnp.inf, best), width)
        active = _take(grown._replace(score=ranked), slots)._replace(log_p=going)
        active = active._replace(score=jnp.where(going > -jnp.inf, active.score, -jnp.inf))
        state = _reorder(state, jnp.take_along_axis(parent, slots, axis=1))
        last = jnp.take_along_axis(token, slots, axis=1)
        done = search.done | is_done(active, finished, t + 1)
        return _Search(t + 1, state, last, active, finished, done)

    def unfinished(search: _Search) -> Bool[Array, ""]:
        return (search.t < length) & ~search.done.all()

    begin = jnp.full((batch, width), BOS)
    search = _Search(jnp.zeros((), int), state, begin, active, finished, max_length <= 0)
    return jax.lax.while_loop(unfinished, advance, search).finished


def _continuations(
    so_far: Float[Array, "b k"], log_p: Float[Array, "b k v"]
) -> tuple[Int[Array, "b n"], Int[Array, "b n"], Float[Array, "b n"]]:
    """Return parent, token and log p of the 2 × width most probable continuations, best first.

    At most `width` of them end in </s>, so at least `width` remain active.
    """
    count = 2 * so_far.shape[1]
    best_log_p, tokens = largest(log_p, min(count, log_p.shape[-1]))
    total = so_far[..., None] + best_log_p
    best, index = jax.lax.top_k(total.reshape(len(total), -1), count)
    tokens = jnp.take_along_axis(tokens.reshape(len(total), -1), index, axis=1)
    return index // best_log_p.shape[-1], tokens, best


def largest(
    x: Float[Array, "*b v"], count: int, block: int = 64
) -> tuple[Float[Array, "*b n"], Int[Array, "*b n"]]:
    """Return `jax.lax.top_k`, faster on long rows: the largest values are in the blocks with the
    largest maxima, so only those blocks are sorted (docs/performance.md)."""
    size = x.shape[-1]
    if size <= 2 * count * block:
        values, index = jax.lax.top_k(x, count)  # returns a list
        return values, index
    short = -size % block
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, short)], constant_values=-jnp.inf)
    blocks = padded.reshape(*x.shape[:-1], -1, block)
    _, chosen = jax.lax.top_k(blocks.max(axis=-1), count)
    chosen = jnp.sort(chosen, axis=-1)  # of equal values, the first one wins, as in top_k
    found = jnp.take_along_axis(blocks, chosen[..., None], axis=-2)
    values, offsets = jax.lax.top_k(found.reshape(*x.shape[:-1], -1), count)
    index = jnp.take_along_axis(chosen, offsets // block, axis=-1) * block + offsets % block
    return values, index


def _take(hypotheses: Hypotheses, slots: Int[Array, "b n"]) -> Hypotheses:
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, slots), hypotheses)


def _reorder(state: Any, parents: Int[Array, "b k"]) -> Any:
    """Give each hypothesis the model state of its parent, which is of the same sentence and device.

    A part of the state with a method `reorder` decides itself which of its rows move.
    """
    batch, width = parents.shape

    def rows(x: Shaped[Array, "r *f"]) -> Shaped[Array, "r *f"]:
        grouped = x.reshape(batch, width, *x.shape[1:])
        return jax.vmap(lambda row, i: row[i])(grouped, parents).reshape(x.shape)

    def moved(part: Any) -> Any:
        return part.reorder(rows) if hasattr(part, "reorder") else rows(part)

    return jax.tree.map(moved, state, is_leaf=lambda part: hasattr(part, "reorder"))


def _grow(
    active: Hypotheses,
    parent: Int[Array, "b n"],
    token: Int[Array, "b n"],
    t: Int[Array, ""],
    log_p: Float[Array, "b n"],
    weights: Float[Array, "r s"] | None,
) -> Hypotheses:
    """Append a token, and the attention of its time step, to the parents' hypotheses."""
    put = jax.lax.dynamic_update_index_in_dim
    grown, attention = _take(active, parent), None
    if weights is not None:
        weights = weights.reshape(*active.score.shape, -1)
        now = jax.vmap(lambda row, i: row[i])(weights, parent)
        attention = put(grown.attention, now, t, axis=2)
    return Hypotheses(put(grown.tokens, token, t, axis=2), log_p, log_p, attention)


def _best(first: Hypotheses, second: Hypotheses) -> Hypotheses:
    """Return the best of both, as many as the first has."""
    both = jax.tree.map(lambda x, y: jnp.concatenate([x, y], axis=1), first, second)
    return _take(both, jax.lax.top_k(both.score, first.score.shape[1])[1])


def penalized(
    hypotheses: Hypotheses,
    length: Int[Array, ""] | Int[Array, "b n"],
    settings: Config,
    source_mask: Bool[Array, "b s"] | None,
) -> Float[Array, "b n"]:
    """log p / lp(length) + β Σ_s log min(Σ_t α_ts, 1) (Wu 2016 eq. 14)."""
    score = hypotheses.log_p / LENGTH_PENALTIES[settings.length_penalty](length, settings.alpha)
    if settings.coverage:
        assert hypotheses.attention is not None and source_mask is not None
        covered = hypotheses.attention.sum(axis=2)
        penalty = jnp.log(jnp.clip(covered, 1e-6, 1))
        score += settings.coverage * jnp.sum(penalty, axis=-1, where=source_mask[:, None])
    return score


LENGTH_PENALTIES = {
    "none": lambda length, alpha: 1.0,
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,  # Wu 2016; α .6 in Vaswani 2017
    "average": lambda length, alpha: length**alpha,  # α = 1: the mean log p per token
}
