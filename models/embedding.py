"""Token embeddings."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Float, Int

FEW = 256  # largest vocabulary (letters, phonemes, bytes) whose gradient is a product on a GPU


class Embed(nn.Module):
    """Like `nn.Embed`, but its gradient is summed in float32, whatever the compute dtype.

    The gradient of a frequent token is a sum of thousands of numbers, which bfloat16 cannot
    represent. Usually it is a scatter-add. A GPU performs the additions to one row one after
    another, so there the gradient of a small vocabulary is a product with one-hot vectors.
    """

    num_embeddings: int
    features: int
    dtype: DTypeLike = jnp.float32
    embedding_init: Initializer = nn.linear.default_embed_init

    def setup(self) -> None:
        shape = (self.num_embeddings, self.features)
        self.embedding = self.param("embedding", self.embedding_init, shape)

    def __call__(self, tokens: Int[Array, "*b"]) -> Float[Array, "*b d"]:
        few = self.num_embeddings <= FEW and jax.default_backend() != "cpu"
        rows = _rows(self.embedding, tokens) if few else jnp.take(self.embedding, tokens, axis=0)
        return rows.astype(self.dtype)


@jax.custom_vjp
def _rows(embedding: Float[Array, "v d"], tokens: Int[Array, "*b"]) -> Float[Array, "*b d"]:
    return jnp.take(embedding, tokens, axis=0)


def _forward(embedding: Array, tokens: Array) -> tuple[Array, tuple[Array, Array]]:
    return _rows(embedding, tokens), (embedding, tokens)


def _backward(read: tuple[Array, Array], gradient: Array) -> tuple[Array, None]:
    embedding, tokens = read
    chosen = jax.nn.one_hot(tokens, len(embedding), dtype=gradient.dtype)
    exact = jax.lax.Precision.HIGHEST  # as exact as the additions of a scatter-add
    return jnp.einsum("...v,...d->vd", chosen, gradient, precision=exact), None


_rows.defvjp(_forward, _backward)
