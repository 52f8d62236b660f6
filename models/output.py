"""The output layer, separate from the models so that losses can compute logits in chunks."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jaxtyping import Float


class Output(nn.Module):
    """The output matrix W_s, with one column per token of the vocabulary."""

    features: int
    size: int
    kernel_init: Initializer

    def setup(self) -> None:
        self.kernel = self.param("kernel", self.kernel_init, (self.features, self.size))


def logits(features: Float[Array, "*b d"], kernel: Float[Array, "d v"]) -> Float[Array, "*b v"]:
    """Compute logits in float32; bfloat16 could round the largest logits to the same value."""
    kernel = kernel.astype(features.dtype)
    return jnp.einsum("...d,dv->...v", features, kernel, preferred_element_type=jnp.float32)
