"""Greedy decoding and sampling over a step function, independent of the model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from data.vocabulary import BOS, EOS, PAD

# step(state, tokens) -> logits, next state, attention or None
Step = Callable[
    [Any, Int[Array, " b"]], tuple[Float[Array, "b v"], Any, Float[Array, "b s"] | None]
]

# choose(log p, t) -> the next tokens
Choose = Callable[[Float[Array, "b v"], Int[Array, ""]], Int[Array, " b"]]


class Decoded(NamedTuple):
    """One hypothesis per sentence."""

    tokens: Int[Array, "b t"]  # ends in </s> where it was generated, then <pad>
    log_p: Float[Array, " b"]  # of the whole sequence, </s> included
    attention: Float[Array, "b t s"] | None


def most_probable(log_p: Float[Array, "b v"], t: Int[Array, ""]) -> Int[Array, " b"]:
    return log_p.argmax(axis=-1)


def allowed(log_p: Float[Array, "b v"], early: Bool[Array, " b"]) -> Float[Array, "b v"]:
    """Exclude <pad> and <s>, and </s> where a hypothesis would be too short."""
    token = jnp.arange(log_p.shape[-1])[None]
    excluded = (token == PAD) | (token == BOS) | ((token == EOS) & early[:, None])
    return jnp.where(excluded, -jnp.inf, log_p)


def greedy(
    step: Step,
    state: Any,
    batch: int,
    max_length: Int[Array, " b"],
    length: int,
    min_length: Int[Array, " b"] | None = None,
    choose: Choose = most_probable,
) -> Decoded:
    """Decode until every sentence has ended or has its own `max_length` (at most `length`)."""
    shapes = jax.eval_shape(step, state, jnp.full(batch, BOS))
    attention = None
    if shapes[2] is not None:
        attention = jnp.zeros((batch, length, shapes[2].shape[-1]))
    shortest = jnp.zeros(batch, int) if min_length is None else min_length
    begin = Decoded(jnp.full((batch, length), PAD), jnp.zeros(batch), attention)

    def active(loop: tuple) -> Bool[Array, ""]:
        t, _, _, done, _ = loop
        return (t < length) & ~done.all()

    def advance(loop: tuple) -> tuple:
        t, state, last, done, out = loop
        logits, state, weights = step(state, last)
        log_p = allowed(jax.nn.log_softmax(logits.astype(jnp.float32)), t < shortest)
        token = choose(log_p, t)
        gained = jnp.take_along_axis(log_p, token[:, None], axis=-1)[:, 0]
        token, gained = jnp.where(done, PAD, token), jnp.where(done, 0, gained)
        attention = out.attention
        if weights is not None:
            weights = jnp.where(done[:, None], 0, weights)
            attention = jax.lax.dynamic_update_index_in_dim(attention, weights, t, axis=1)
        tokens = jax.lax.dynamic_update_index_in_dim(out.tokens, token, t, axis=1)
        done = done | (token == EOS) | (t + 1 >= max_length)
        return t + 1, state, token, done, Decoded(tokens, out.log_p + gained, attention)

    # Padding rows have max_length 0 and are finished before the first time step.
    loop = (0, state, jnp.full(batch, BOS), max_length <= 0, begin)
    return jax.lax.while_loop(active, advance, loop)[-1]
