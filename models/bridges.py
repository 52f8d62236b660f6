"""From the encoder's final states to the decoder's first ones."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike

from models.cells import Carry


class Copy(nn.Module):
    """Handed over layer by layer (Sutskever 2014); both stacks must have the same states."""

    def __call__(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return carries


class Dense(nn.Module):
    """Each decoder state is tanh(W · an encoder layer's final states), for any depths and widths.

    Decoder layers above the encoder's depth read its top layer. With one layer each this is Cho
    2014's h_0 = tanh(V c).
    """

    layers: int
    states: int
    features: int
    kernel_init: Initializer
    dtype: DTypeLike = jnp.float32

    def read(self, carry: Carry) -> Array:
        return jnp.concatenate(carry, axis=-1)

    @nn.compact
    def __call__(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        def bridge(layer: int) -> Carry:
            final = self.read(carries[min(layer, len(carries) - 1)])
            width, name = self.states * self.features, f"layer{layer}"
            dense = nn.Dense(width, False, self.dtype, kernel_init=self.kernel_init, name=name)
            return tuple(jnp.split(jnp.tanh(dense(final)), self.states, axis=-1))

        return tuple(bridge(layer) for layer in range(self.layers))


class Backward(Dense):
    """s_0 = tanh(W ←h_1): reads the backward direction alone (Bahdanau 2015)."""

    def read(self, carry: Carry) -> Array:
        return jnp.concatenate([jnp.split(state, 2, axis=-1)[1] for state in carry], axis=-1)
