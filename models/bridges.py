"""Bridges: compute the initial decoder states from the final encoder states."""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Float

from models.cells import CELLS, Carry
from models.recurrent import Stack


class Copy(nn.Module):
    """Copy the final encoder states layer by layer (Sutskever 2014).

    The encoder and the decoder must have the same cell, width and number of layers.
    """

    def __call__(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return carries


class Dense(nn.Module):
    """Compute initial decoder states as tanh(W · final encoder state), with one W per layer.

    The encoder and the decoder may differ in depth and width: decoder layers above the encoder's
    depth read the encoder's top layer. With one encoder and one decoder layer this is
    h_0 = tanh(V c) of Cho 2014.
    """

    layers: int
    states: int  # number of arrays in the carry of a decoder layer
    features: int
    kernel_init: Initializer
    dtype: DTypeLike = jnp.float32

    def read(self, carry: Carry) -> Float[Array, "b k"]:
        """Return the part of a final encoder carry that the decoder state depends on."""
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
    """Compute the decoder state s_0 = tanh(W ←h_1) from backward encoder states (Bahdanau 2015)."""

    def read(self, carry: Carry) -> Float[Array, "b k"]:
        return jnp.concatenate([jnp.split(state, 2, axis=-1)[1] for state in carry], axis=-1)


def _dense(kind: type[Dense]) -> Callable[[Stack], Dense]:
    def make(stack: Stack) -> Dense:
        states, init = CELLS[stack.cell].states, stack.initializers.kernel
        return kind(stack.layers, states, stack.features, init, stack.dtype)

    return make


# Maps the bridge names of configs to functions that build a bridge for the decoder's stack.
BRIDGES: dict[str, Callable[[Stack], nn.Module]] = {
    "copy": lambda stack: Copy(),
    "dense": _dense(Dense),
    "backward": _dense(Backward),
}
