"""Token embeddings."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Float, Int

# Largest size of a vocabulary (of letters, phonemes or bytes, for example) whose embedding gradient
# is a matrix product on GPUs (docs/performance_decisions.md).
SMALL_VOCABULARY = 256


class Embed(nn.Module):
    """Embedding layer like `nn.Embed`, with gradients summed in float32 for any compute dtype.

    The gradient of a frequent token is a sum of thousands of numbers, for which bfloat16 is not
    precise enough. A scatter-add computes the gradient, except for small vocabularies on GPUs: a
    GPU performs the additions to one row sequentially, so a matrix product with one-hot vectors is
    faster if there are few rows.
    """

    num_embeddings: int
    features: int
    dtype: DTypeLike = jnp.float32
    embedding_init: Initializer = nn.linear.default_embed_init

    def setup(self) -> None:
        shape = (self.num_embeddings, self.features)
        self.embedding = self.param("embedding", self.embedding_init, shape)

    def __call__(self, tokens: Int[Array, "*b"]) -> Float[Array, "*b d"]:
        if self.num_embeddings <= SMALL_VOCABULARY and jax.default_backend() != "cpu":
            rows = _lookup(self.embedding, tokens)
        else:
            rows = jnp.take(self.embedding, tokens, axis=0)
        return rows.astype(self.dtype)


@jax.custom_vjp
def _lookup(embedding: Float[Array, "v d"], tokens: Int[Array, "*b"]) -> Float[Array, "*b d"]:
    """Return the embedding of each token; the gradient is a product with one-hot vectors."""
    return jnp.take(embedding, tokens, axis=0)


def _forward(embedding: Array, tokens: Array) -> tuple[Array, tuple[Array, Array]]:
    return _lookup(embedding, tokens), (embedding, tokens)


def _backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, None]:
    embedding, tokens = residuals
    one_hot = jax.nn.one_hot(tokens, len(embedding), dtype=gradient.dtype)
    # The default precision could round the gradients, unlike the scatter-add that this replaces.
    exact = jax.lax.Precision.HIGHEST
    return jnp.einsum("...v,...d->vd", one_hot, gradient, precision=exact), None


_lookup.defvjp(_forward, _backward)
