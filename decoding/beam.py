"""Beam search over a step function, independent of the model.

The search keeps the decode.nbest finished hypotheses with the best scores. It ends for a sentence
when no active hypothesis can still enter them, or at the maximum length of the sentence, where
active hypotheses count as finished. A growing hypothesis can improve its score, because the length
penalty grows with the length and the coverage penalty grows with the coverage. The search therefore
compares the worst of the nbest scores with an upper bound of the scores that active hypotheses can
reach (`upper_bound`). This early stop is exact: the result is that of a search to the maximum
length. For a length penalty, the bound is as tight as possible, because all further tokens of a
hypothesis may have a probability near 1. docs/performance_decisions.md has measurements.

A hypothesis finishes only if </s> is among the `width` (decode.beam) most probable continuations,
so a beam of width 1 equals greedy decoding for any penalties.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Shaped

from configs.base import Config
from data.vocabulary import BOS, EOS, PAD
from decoding.greedy import Step
from decoding.next_tokens import continuations


class Hypotheses(NamedTuple):
    """Hypotheses of each sentence, sorted by decreasing score; empty beam slots have score −inf."""

    tokens: Int[Array, "b k t"]  # generated tokens, with </s> if it was generated, then <pad>
    score: Float[Array, "b k"]  # log_p with the length and coverage penalties of `settings`
    log_p: Float[Array, "b k"]  # log-probability of the tokens, without penalties
    attention: Float[Array, "b k t s"] | None


class _Beam(NamedTuple):
    """Hypotheses during the search.

    Attention weights are not copied from parents to children. Each hypothesis only keeps the beam
    slots in which its attention weights were computed, and the sum of these weights if the coverage
    penalty needs it.
    """

    tokens: Int[Array, "b k t"]
    score: Float[Array, "b k"]
    log_p: Float[Array, "b k"]
    slots: Int[Array, "b k t"] | None
    coverage: Float[Array, "b k s"] | None  # sum of the attention weights of all time steps


class _Search(NamedTuple):
    """State of the search between two time steps."""

    t: Int[Array, ""]
    state: Any  # model state, with one row per active hypothesis
    last: Int[Array, "b k"]  # last token of each active hypothesis
    active: _Beam  # sorted by decreasing log_p; their scores are not used
    finished: _Beam
    attention: Float[Array, "b k t s"] | None  # weights of every beam slot at every time step
    done: Bool[Array, " b"]  # whether the search of a sentence has ended, so its result is final


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
    """Return the decode.nbest hypotheses with the best scores for each sentence.

    `step` and `state` have batch × beam rows: one row per hypothesis, grouped by sentence.
    `length` is a static upper bound of `max_length`. `settings` is config.decode, of which beam,
    nbest, length_penalty, alpha and coverage are used. The coverage penalty needs `source_mask`.
    """
    width = settings.beam
    shortest = jnp.zeros(batch, int) if min_length is None else min_length

    def is_done(active: _Beam, finished: _Beam, t: Int[Array, ""]) -> Bool[Array, " b"]:
        reachable = upper_bound(active.log_p[:, 0], max_length, settings)
        worst = finished.score[:, -1]  # the last score is the lowest, because hypotheses are sorted
        return (worst >= reachable) | (t >= max_length)

    def advance(search: _Search) -> _Search:
        logits, state, weights = step(search.state, search.last.reshape(-1))
        t, active, attention = search.t, *_attended(search, weights)
        too_short = jnp.repeat(t < shortest, width)
        parent, token, best = continuations(active.log_p, logits.astype(jnp.float32), too_short)
        grown = _append(active, parent, token, t, best)
        ends = (token == EOS) | (t + 1 >= max_length)[:, None]
        accepted = ends & (jnp.arange(2 * width)[None] < width) & ~search.done[:, None]
        score = penalized(best, grown.coverage, t + 1, settings, source_mask)
        candidates = grown._replace(score=jnp.where(accepted, score, -jnp.inf))
        finished = _best(search.finished, candidates)
        active_log_p, slots = jax.lax.top_k(jnp.where(token == EOS, -jnp.inf, best), width)
        active = _take(grown, slots)._replace(log_p=active_log_p)
        state = _reorder(state, jnp.take_along_axis(parent, slots, axis=1))
        last = jnp.take_along_axis(token, slots, axis=1)
        done = search.done | is_done(active, finished, t + 1)
        return _Search(t + 1, state, last, active, finished, attention, done)

    def is_running(search: _Search) -> Bool[Array, ""]:
        return (search.t < length) & ~search.done.all()

    search = _start(step, state, batch, max_length, length, settings)
    end = jax.lax.while_loop(is_running, advance, search)
    tokens, score, log_p, slots, _ = end.finished
    return Hypotheses(tokens, score, log_p, _gather_attention(end.attention, slots, tokens))


def _start(
    step: Step, state: Any, batch: int, max_length: Int[Array, " b"], length: int, settings: Config
) -> _Search:
    """Return the state of the search before the first time step."""
    width = settings.beam
    shapes = jax.eval_shape(step, state, jnp.full(batch * width, BOS))
    tokens, worst = jnp.full((batch, width, length), PAD), jnp.full((batch, width), -jnp.inf)
    attention = slots = coverage = None
    if shapes[2] is not None:
        attention = jnp.zeros((*tokens.shape, shapes[2].shape[-1]))
        slots = jnp.zeros_like(tokens)
        coverage = attention[:, :, 0] if settings.coverage else None
    empty = _Beam(tokens, worst, worst, slots, coverage)
    finished = jax.tree.map(lambda x: x[:, : settings.nbest], empty)
    # Start with one empty hypothesis: `width` identical ones would fill the beam with copies.
    active = empty._replace(log_p=worst.at[:, 0].set(0))
    begin = jnp.full((batch, width), BOS)
    t, done = jnp.zeros((), int), max_length <= 0
    return _Search(t, state, begin, active, finished, attention, done)


def _take(hypotheses: _Beam, slots: Int[Array, "b n"]) -> _Beam:
    """Gather the hypotheses of the given beam slots."""
    return jax.tree.map(lambda x: jax.vmap(lambda row, i: row[i])(x, slots), hypotheses)


def _reorder(state: Any, parents: Int[Array, "b k"]) -> Any:
    """Replace the model state of each hypothesis by that of its parent.

    Parents belong to the same sentence, so rows stay on their device. If a part of the state has a
    method `reorder`, that method selects the arrays to be reordered.
    """
    batch, width = parents.shape

    def rows(x: Shaped[Array, "r *f"]) -> Shaped[Array, "r *f"]:
        grouped = x.reshape(batch, width, *x.shape[1:])
        return jax.vmap(lambda row, i: row[i])(grouped, parents).reshape(x.shape)

    def reorder(part: Any) -> Any:
        return part.reorder(rows) if hasattr(part, "reorder") else rows(part)

    return jax.tree.map(reorder, state, is_leaf=lambda part: hasattr(part, "reorder"))


def _attended(
    search: _Search, weights: Float[Array, "r s"] | None
) -> tuple[_Beam, Float[Array, "b k t s"] | None]:
    """Add the attention weights of a time step to the active hypotheses and to the record."""
    active, attention = search.active, search.attention
    if weights is None:
        return active, attention
    weights = weights.reshape(*active.score.shape, -1)
    attention = jax.lax.dynamic_update_index_in_dim(attention, weights, search.t, axis=2)
    if active.coverage is not None:
        active = active._replace(coverage=active.coverage + weights)
    return active, attention


def _append(
    active: _Beam,
    parent: Int[Array, "b n"],
    token: Int[Array, "b n"],
    t: Int[Array, ""],
    log_p: Float[Array, "b n"],
) -> _Beam:
    """Append tokens, and the beam slots of their attention weights, to the parent hypotheses."""
    grown = _take(active, parent)
    tokens, slots = (
        None if x is None else jax.lax.dynamic_update_index_in_dim(x, new, t, axis=2)
        for x, new in ((grown.tokens, token), (grown.slots, parent))
    )
    return grown._replace(tokens=tokens, slots=slots, score=log_p, log_p=log_p)


def _best(first: _Beam, second: _Beam) -> _Beam:
    """Merge two sets of hypotheses; keep those with the best scores, up to the size of `first`."""
    both = jax.tree.map(lambda x, y: jnp.concatenate([x, y], axis=1), first, second)
    return _take(both, jax.lax.top_k(both.score, first.score.shape[1])[1])


def _gather_attention(
    attention: Float[Array, "b k t s"] | None,
    slots: Int[Array, "b n t"] | None,
    tokens: Int[Array, "b n t"],
) -> Float[Array, "b n t s"] | None:
    """Return the attention weights of each hypothesis, which are zero after its last token."""
    if attention is None:
        return None
    t = jnp.arange(tokens.shape[-1])[None]
    weights = jax.vmap(lambda weights, slots: weights[slots, t])(attention, slots)
    return jnp.where((tokens != PAD)[..., None], weights, 0)


def penalized(
    log_p: Float[Array, "b n"],
    coverage: Float[Array, "b n s"] | None,
    length: Int[Array, ""] | Int[Array, "b n"],
    settings: Config,
    source_mask: Bool[Array, "b s"] | None,
) -> Float[Array, "b n"]:
    """Return the score log p / lp(length) + β Σ_s log min(Σ_t α_ts, 1) (Wu 2016 eq. 14).

    lp is the length penalty, β is decode.coverage, and `coverage` is the sum of the attention
    weights α_ts over the target positions t.
    """
    score = log_p / LENGTH_PENALTIES[settings.length_penalty](length, settings.alpha)
    if settings.coverage:
        assert coverage is not None and source_mask is not None
        penalty = jnp.log(jnp.clip(coverage, 1e-6, 1))
        score += settings.coverage * jnp.sum(penalty, axis=-1, where=source_mask[:, None])
    return score


def upper_bound(
    log_p: Float[Array, " b"], max_length: Int[Array, " b"], settings: Config
) -> Float[Array, " b"]:
    """Return an upper bound of the scores that hypotheses with this log p can reach by growing.

    log p is at most 0 and only decreases. The length penalty, by which it is divided, is largest at
    `max_length`, because decode.alpha is not negative. The coverage penalty is at most 0, which is
    its value if every source position has received a total attention weight of 1 or more.
    """
    longest = jnp.maximum(max_length, 1)  # padding rows have max_length 0
    return log_p / LENGTH_PENALTIES[settings.length_penalty](longest, settings.alpha)


# Length penalties lp(length) by name; log p is divided by them, and `alpha` is decode.alpha. They
# must not decrease with the length (`upper_bound`).
LENGTH_PENALTIES = {
    "none": lambda length, alpha: 1.0,
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,  # of Wu 2016; Vaswani 2017: α = .6
    "average": lambda length, alpha: length**alpha,  # α = 1 gives the mean log p per token
}
