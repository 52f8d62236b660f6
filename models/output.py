"""From features to the vocabulary, kept apart from the models so that losses can go by parts."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jaxtyping import Float


class Output(nn.Module):
    """The matrix W_s whose columns are the words."""

    features: int
    size: int
    kernel_init: Initializer

    def setup(self) -> None:
        self.kernel = self.param("kernel", self.kernel_init, (self.features, self.size))


def logits(features: Float[Array, "*b d"], kernel: Float[Array, "d v"]) -> Float[Array, "*b v"]:
    """bfloat16 products with float32 sums: rounded logits would tie the likeliest words."""
    kernel = kernel.astype(features.dtype)
    return jnp.einsum("...d,dv->...v", features, kernel, preferred_element_type=jnp.float32)
