"""Greedy decoding and sampling over a step function, independent of the model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from data.vocabulary import BOS, EOS, PAD
from decoding.next_tokens import most_probable

# step(state, tokens) -> logits of the next tokens, next state, attention weights or None
Step = Callable[
    [Any, Int[Array, " b"]], tuple[Float[Array, "b v"], Any, Float[Array, "b s"] | None]
]

# choose(logits, too_short, t) -> the token that each row generates at time step t, and its log p
Choose = Callable[
    [Float[Array, "b v"], Bool[Array, " b"], Int[Array, ""]],
    tuple[Int[Array, " b"], Float[Array, " b"]],
]


class Decoded(NamedTuple):
    """One hypothesis per sentence."""

    tokens: Int[Array, "b t"]  # generated tokens, with </s> if it was generated, then <pad>
    log_p: Float[Array, " b"]  # log p of the whole sequence, including </s>
    attention: Float[Array, "b t s"] | None


def greedy(
    step: Step,
    state: Any,
    batch: int,
    max_length: Int[Array, " b"],
    length: int,
    min_length: Int[Array, " b"] | None = None,
    choose: Choose = most_probable,
) -> Decoded:
    """Decode one hypothesis per sentence, taking the token that `choose` returns at each time step.

    A hypothesis ends with </s> or at the `max_length` of its sentence. `length` is a static upper
    bound of all `max_length`.
    """
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
        token, log_p = choose(logits.astype(jnp.float32), t < shortest, t)
        token, log_p = jnp.where(done, PAD, token), jnp.where(done, 0, log_p)
        attention = out.attention
        if weights is not None:
            weights = jnp.where(done[:, None], 0, weights)
            attention = jax.lax.dynamic_update_index_in_dim(attention, weights, t, axis=1)
        tokens = jax.lax.dynamic_update_index_in_dim(out.tokens, token, t, axis=1)
        done = done | (token == EOS) | (t + 1 >= max_length)
        return t + 1, state, token, done, Decoded(tokens, out.log_p + log_p, attention)

    # Padding rows have max_length 0 and are finished before the first time step.
    loop = (0, state, jnp.full(batch, BOS), max_length <= 0, begin)
    return jax.lax.while_loop(active, advance, loop)[-1]
