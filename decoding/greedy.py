"""One hypothesis a sentence, word by word over a step function; knows no model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from data.vocabulary import BOS, EOS, PAD

# step(state, tokens) -> logits [b, v], next state, attention [b, s] or None
Step = Callable[[Any, Int[Array, " b"]], tuple[Float[Array, "b v"], Any, Array | None]]

# choose(log p, t) -> the next words
Choose = Callable[[Float[Array, "b v"], Int[Array, ""]], Int[Array, " b"]]


class Decoded(NamedTuple):
    tokens: Int[Array, "b t"]  # with </s> where it was reached, <pad> behind it
    log_p: Float[Array, " b"]  # of the whole sequence, </s> included
    attention: Float[Array, "b t s"] | None


def likeliest(log_p: Float[Array, "b v"], t: Int[Array, ""]) -> Int[Array, " b"]:
    return log_p.argmax(axis=-1)


def allowed(log_p: Float[Array, "b v"], early: Bool[Array, " b"]) -> Float[Array, "b v"]:
    """log p without padding and beginnings, which are no words, and without too early an end."""
    word = jnp.arange(log_p.shape[-1])[None]
    refused = (word == PAD) | (word == BOS) | ((word == EOS) & early[:, None])
    return jnp.where(refused, -jnp.inf, log_p)


def greedy(
    step: Step,
    state: Any,
    batch: int,
    max_length: Int[Array, " b"],
    length: int,
    min_length: Int[Array, " b"] | None = None,
    choose: Choose = likeliest,
) -> Decoded:
    """Decodes until every sentence has ended or reached its own `max_length` (at most `length`)."""
    shapes = jax.eval_shape(step, state, jnp.full(batch, BOS))
    attention = None
    if shapes[2] is not None:
        attention = jnp.zeros((batch, length, shapes[2].shape[-1]))
    shortest = jnp.zeros(batch, int) if min_length is None else min_length
    begin = Decoded(jnp.full((batch, length), PAD), jnp.zeros(batch), attention)

    def unfinished(loop: tuple) -> Bool[Array, ""]:
        t, _, _, done, _ = loop
        return (t < length) & ~done.all()

    def advance(loop: tuple) -> tuple:
        t, state, last, done, out = loop
        logits, state, weights = step(state, last)
        log_p = allowed(jax.nn.log_softmax(logits.astype(jnp.float32)), t < shortest)
        word = choose(log_p, t)
        gained = jnp.take_along_axis(log_p, word[:, None], axis=-1)[:, 0]
        word, gained = jnp.where(done, PAD, word), jnp.where(done, 0, gained)
        attention = out.attention
        if weights is not None:
            weights = jnp.where(done[:, None], 0, weights)
            attention = jax.lax.dynamic_update_index_in_dim(attention, weights, t, axis=1)
        tokens = jax.lax.dynamic_update_index_in_dim(out.tokens, word, t, axis=1)
        done = done | (word == EOS) | (t + 1 >= max_length)
        return t + 1, state, word, done, Decoded(tokens, out.log_p + gained, attention)

    # Rows of padding ask for no words at all and are done before the first step.
    loop = (0, state, jnp.full(batch, BOS), max_length <= 0, begin)
    return jax.lax.while_loop(unfinished, advance, loop)[-1]
