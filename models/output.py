"""The output layer, separate from the models so that losses can compute logits in chunks."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.nn.initializers import Initializer
from jaxtyping import Float


class Output(nn.Module):
    """The output projection, a matrix `kernel` with one column per token of the vocabulary."""

    features: int
    size: int
    kernel_init: Initializer

    def setup(self) -> None:
        self.kernel = self.param("kernel", self.kernel_init, (self.features, self.size))


@struct.dataclass
class Features:
    """Input of the output layer: one or several vectors per token.

    With `mixture`, the output distribution is Σ_n mixture_n softmax(logits of vector n).
    """

    vectors: Float[Array, "*b d"]  # [*b, d] or [*b, n, d]
    mixture: Float[Array, "*b n"] | None = None


def logits(features: Float[Array, "*b d"], kernel: Float[Array, "d v"]) -> Float[Array, "*b v"]:
    """Multiply features by the output matrix in float32; bfloat16 could make logits equal."""
    kernel = kernel.astype(features.dtype)
    return jnp.einsum("...d,dv->...v", features, kernel, preferred_element_type=jnp.float32)


def output_scores(features: Features, kernel: Float[Array, "d v"]) -> Float[Array, "*b v"]:
    """Return scores of the next token, whose softmax is its distribution.

    They are the logits of a vector, or the log-probabilities of a mixture.
    """
    if features.mixture is None:
        return logits(features.vectors, kernel)
    return mixture_scores(features.vectors, features.mixture, kernel)


def mixture_scores(
    features: Float[Array, "*b n d"], weights: Float[Array, "*b n"], kernel: Float[Array, "d v"]
) -> Float[Array, "*b v"]:
    """Return the log-probabilities of a mixture of n distributions."""
    joint = jax.nn.log_softmax(logits(features, kernel)) + log_weights(weights)[..., None]
    return jax.nn.logsumexp(joint, axis=-2)


def log_weights(weights: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """Return the logarithm of attention weights, which may be 0, without infinite values."""
    return jnp.log(jnp.maximum(weights, 1e-30))
