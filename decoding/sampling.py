"""Sampling: the next token is drawn from the model's distribution."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int, Key

from decoding.greedy import Choose


def sampled(
    keys: Key[Array, " b"], temperature: float, top_k: int = 0, top_p: float = 1.0
) -> Choose:
    """Return a function that samples from p^(1/temperature).

    Only the `top_k` most probable tokens (0: all), and of these the fewest with a total probability
    of `top_p`, can be drawn. Each sentence has its own key, so that the rest of its batch does not
    change its samples.
    """

    def choose(log_p: Float[Array, "b v"], t: Int[Array, ""]) -> Int[Array, " b"]:
        scores = log_p / temperature
        if top_k:
            least = jax.lax.top_k(scores, min(top_k, scores.shape[-1]))[0][:, -1:]
            scores = jnp.where(scores < least, -jnp.inf, scores)
        if top_p < 1:
            ranked = jnp.sort(scores, axis=-1, descending=True)
            p = jax.nn.softmax(ranked)
            kept = jnp.cumsum(p, axis=-1) - p < top_p  # always keeps the most probable one
            least = jnp.min(jnp.where(kept, ranked, jnp.inf), axis=-1, keepdims=True)
            scores = jnp.where(scores < least, -jnp.inf, scores)
        return jax.vmap(lambda k, r: jax.random.categorical(jax.random.fold_in(k, t), r))(
            keys, scores
        )

    return choose
