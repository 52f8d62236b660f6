"""Words drawn by their probability, in place of the likeliest."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Int, Key

from decoding.greedy import Choose


def sampled(
    keys: Key[Array, " b"], temperature: float, top_k: int = 0, top_p: float = 1.0
) -> Choose:
    """Draws from p^(1/temperature), of the `top_k` likeliest words (0: all), of the fewest whose
    probabilities make up `top_p`. A key a sentence: its neighbours in a batch change nothing."""

    def choose(log_p: Array, t: Int[Array, ""]) -> Array:
        ratings = log_p / temperature
        if top_k:
            least = jax.lax.top_k(ratings, min(top_k, ratings.shape[-1]))[0][:, -1:]
            ratings = jnp.where(ratings < least, -jnp.inf, ratings)
        if top_p < 1:
            ranked = jnp.sort(ratings, axis=-1, descending=True)
            p = jax.nn.softmax(ranked)
            kept = jnp.cumsum(p, axis=-1) - p < top_p  # the likeliest is always among them
            least = jnp.min(jnp.where(kept, ranked, jnp.inf), axis=-1, keepdims=True)
            ratings = jnp.where(ratings < least, -jnp.inf, ratings)
        return jax.vmap(lambda k, r: jax.random.categorical(jax.random.fold_in(k, t), r))(
            keys, ratings
        )

    return choose
