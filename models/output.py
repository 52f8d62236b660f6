"""The output layer, separate from the models so that losses can compute logits in chunks."""

import flax.linen as nn
import jax
import jax.numpy as jnp
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


def logits(features: Float[Array, "*b d"], kernel: Float[Array, "d v"]) -> Float[Array, "*b v"]:
    """Multiply features by the output matrix in float32; bfloat16 could make logits equal."""
    kernel = kernel.astype(features.dtype)
    return jnp.einsum("...d,dv->...v", features, kernel, preferred_element_type=jnp.float32)


def output_scores(
    features: Float[Array, "..."], weights: Float[Array, "*b s"] | None, kernel: Float[Array, "d v"]
) -> Float[Array, "*b v"]:
    """Return scores of the next token, whose softmax is its distribution.

    They are the logits of features [*b, d]. Features [*b, n, d] define a mixture of n
    distributions, one per source position, and the scores are its log-probabilities. The attention
    weights are those of the mixture (`mixture_weights`).
    """
    if weights is None or features.ndim == weights.ndim:
        return logits(features, kernel)
    return mixture_scores(features, mixture_weights(features, weights), kernel)


def mixture_weights(
    features: Float[Array, "*b n d"], weights: Float[Array, "*b s"]
) -> Float[Array, "*b n"]:
    """Return the weights of the n parts of a mixture, given the weights of all source positions.

    If n differs from the number of source positions, the features are those of the n positions with
    the largest weights, in descending order. Those beyond the source have the weight 0.
    """
    parts, positions = features.shape[-2], weights.shape[-1]
    if parts == positions:
        return weights
    missing = [(0, 0)] * (weights.ndim - 1) + [(0, max(0, parts - positions))]
    weights = jax.lax.top_k(jnp.pad(weights, missing), parts)[0]
    return jax.nn.softmax(log_weights(weights))  # divides the weights by their sum


def mixture_scores(
    features: Float[Array, "*b n d"], weights: Float[Array, "*b n"], kernel: Float[Array, "d v"]
) -> Float[Array, "*b v"]:
    """Return the log-probabilities of a mixture of n distributions."""
    joint = jax.nn.log_softmax(logits(features, kernel)) + log_weights(weights)[..., None]
    return jax.nn.logsumexp(joint, axis=-2)


def log_weights(weights: Float[Array, "*b n"]) -> Float[Array, "*b n"]:
    """Return the logarithm of attention weights, which may be 0, without infinite values."""
    return jnp.log(jnp.maximum(weights, 1e-30))
