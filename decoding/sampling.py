"""Sampling: draw the next token from the model's distribution over the vocabulary."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Key

from decoding.greedy import Choose
from decoding.next_tokens import mask_invalid

LEAST_TEMPERATURE = 1e-6  # smaller values are raised to it, because they could overflow


def with_temperature(
    log_p: Float[Array, "b v"], temperature: float | Float[Array, ""]
) -> Float[Array, "b v"]:
    """Return the logits of p^(1/temperature); the largest logit of each row is 0."""
    shifted = log_p - log_p.max(axis=-1, keepdims=True)
    return shifted / jnp.maximum(temperature, LEAST_TEMPERATURE)


def make_sampler(
    keys: Key[Array, " b"],
    temperature: float | Float[Array, ""],
    top_k: int = 0,
    top_p: float = 1.0,
) -> Choose:
    """Return a function that samples tokens in proportion to p^(1/temperature).

    p is the probability that the model assigns to a token. Samples are restricted to the
    `top_k` most probable tokens (0: all tokens), and among these to the smallest set with a total
    probability of at least `top_p`. Tokens that are as probable as the last one are kept, too.
    There is one random key per sentence, so the samples of a sentence do not depend on the other
    sentences of the batch.
    """

    def choose(
        logits: Float[Array, "b v"], too_short: Bool[Array, " b"], t: Int[Array, ""]
    ) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
        log_p = mask_invalid(jax.nn.log_softmax(logits), too_short)
        scores = with_temperature(log_p, temperature)
        if top_k:
            least = jax.lax.top_k(scores, min(top_k, scores.shape[-1]))[0][:, -1:]
            scores = jnp.where(scores < least, -jnp.inf, scores)
        if top_p < 1:
            ranked = jnp.sort(scores, axis=-1, descending=True)
            p = jax.nn.softmax(ranked)
            # The sum excludes the token itself, so that the most probable token is always kept.
            kept = jnp.cumsum(p, axis=-1) - p < top_p
            least = jnp.min(jnp.where(kept, ranked, jnp.inf), axis=-1, keepdims=True)
            scores = jnp.where(scores < least, -jnp.inf, scores)
        draw = jax.vmap(lambda k, r: jax.random.categorical(jax.random.fold_in(k, t), r))
        token = draw(keys, scores)
        return token, jnp.take_along_axis(log_p, token[:, None], axis=-1)[:, 0]

    return choose
