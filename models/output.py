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


def token_scores(
    features: Float[Array, "*bn d"], weights: Float[Array, "*b s"] | None, kernel: Float[Array, "d v"]
) -> Float[Array, "*b2 v"]:
    """Return logits, or, if the features have an axis of contexts, the log p of their mixture."""
    scores = logits(features, kernel)
    if weights is None or features.ndim == weights.ndim:
        return scores
    log_weights = jnp.log(jnp.maximum(weights, 1e-30))[..., None]
    return jax.nn.logsumexp(jax.nn.log_softmax(scores) + log_weights, axis=-2)
