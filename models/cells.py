"""Recurrent cells, exactly as their papers define them.

A cell works in two halves. `project` maps inputs to the gates' pre-activations; it knows no
time, so a layer calls it once for a whole sequence. `step` adds the recurrent half. A carry is a
tuple whose last entry is the hidden state h.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Float

from models.initializers import XAVIER, Initializers, in_blocks

Carry = tuple[Array, ...]


class Cell(nn.Module):
    """What the cells share: one input and one recurrent matrix for all `gates` at once."""

    features: int
    start_weights: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    gates = 1  # that read the input
    recurrent_gates = 1  # that read the last h as it is
    states = 1
    bias = True

    def setup(self) -> None:
        self.input = self.dense(self.gates, self.start_weights.kernel, self.bias)
        self.recurrent = self.dense(self.recurrent_gates, self.start_weights.recurrent)

    def dense(self, gates: int, init: Initializer, bias: bool = False) -> nn.Dense:
        init = in_blocks(init, gates)
        return nn.Dense(gates * self.features, bias, self.dtype, kernel_init=init)

    def project(self, x: Float[Array, "*b i"]) -> Float[Array, "*b g"]:
        return self.input(x)

    def start(self, batch: int) -> Carry:
        return self.cast((jnp.zeros((batch, self.features)),) * self.states)

    def cast(self, carry: Carry) -> Carry:
        """A carry in the cell's own types: h is computed with, the LSTM's C adds up, in float32."""
        *cells, h = carry
        return (*(c.astype(jnp.float32) for c in cells), h.astype(self.dtype))

    def step(self, carry: Carry, projected: Float[Array, "b g"]) -> Carry:
        raise NotImplementedError


class Elman(Cell):
    """h = tanh(W[h, x] + b)."""

    def step(self, carry: Carry, projected: Float[Array, "b h"]) -> Carry:
        (h,) = carry
        return (jnp.tanh(projected + self.recurrent(h)),)


class LSTM(Cell):
    """f, i, o = σ(W[h, x] + b); C̃ = tanh(W[h, x] + b); C = f·C + i·C̃; h = o·tanh(C)."""

    gates = recurrent_gates = 4
    states = 2

    def step(self, carry: Carry, projected: Float[Array, "b 4h"]) -> Carry:
        c, h = carry
        f, i, o, candidate = jnp.split(projected + self.recurrent(h), 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(candidate)
        return self.cast((c, nn.sigmoid(o) * jnp.tanh(c)))


class GRU(Cell):
    """z, r = σ(W[h, x]); h̃ = tanh(W[r·h, x]); h = (1−z)·h + z·h̃ (Cho 2014; no biases).

    The reset gate acts before the matrix product. Flax's GRUCell and cuDNN apply it after, and
    let z keep the old state where here it admits the new one.
    """

    gates = 3
    recurrent_gates = 2
    bias = False

    def setup(self) -> None:
        super().setup()
        self.candidate = self.dense(1, self.start_weights.recurrent)

    def step(self, carry: Carry, projected: Float[Array, "b 3h"]) -> Carry:
        (h,) = carry
        gates, new = jnp.split(projected, [2 * self.features], axis=-1)
        z, r = jnp.split(nn.sigmoid(gates + self.recurrent(h)), 2, axis=-1)
        new = jnp.tanh(new + self.candidate(r * h))
        return ((1 - z) * h + z * new,)


CELLS: dict[str, type[Cell]] = {"elman": Elman, "lstm": LSTM, "gru": GRU}
