"""Bridges: from the encoder's final states to the decoder's initial ones."""

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
    """Layer by layer (Sutskever 2014); encoder and decoder must have the same states."""

    def __call__(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return carries


class Dense(nn.Module):
    """Each decoder state is tanh(W · final states of an encoder layer), for any depth and width.

    Decoder layers above the encoder's depth read its top layer. With one layer on each side this is
    Cho 2014's h_0 = tanh(V c).
    """

    layers: int
    states: int
    features: int
    kernel_init: Initializer
    dtype: DTypeLike = jnp.float32

    def read(self, carry: Carry) -> Float[Array, "b k"]:
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
    """s_0 = tanh(W ←h_1): reads the backward direction only (Bahdanau 2015)."""

    def read(self, carry: Carry) -> Float[Array, "b k"]:
        return jnp.concatenate([jnp.split(state, 2, axis=-1)[1] for state in carry], axis=-1)


def _dense(kind: type[Dense]) -> Callable[[Stack], Dense]:
    def make(stack: Stack) -> Dense:
        states, init = CELLS[stack.cell].states, stack.initializers.kernel
        return kind(stack.layers, states, stack.features, init, stack.dtype)

    return make


# Each builds a bridge for the decoder's stack.
BRIDGES: dict[str, Callable[[Stack], nn.Module]] = {
    "copy": lambda stack: Copy(),
    "dense": _dense(Dense),
    "backward": _dense(Backward),
}
