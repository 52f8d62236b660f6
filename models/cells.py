"""Recurrent cells, exactly as their papers define them.

A cell reads up to two inputs per time step. The input x is known for all time steps before the loop
starts, so models/scan.py computes its product for all of them at once. The input `fed` is computed
inside the loop (the output of the layer below, a context vector, input feeding), so it shares one
product with the hidden state. A carry is a tuple whose last entry is the hidden state h.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from models.initializers import XAVIER, Initializers, in_blocks

Carry = tuple[Float[Array, "b _"], ...]


class Cell(nn.Module):
    """Base class with the parameters of all cells: W for the inputs, U for h, and the bias b.

    Each of them holds one block of columns per gate.
    """

    features: int
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    gates = 1
    states = 1  # arrays in a carry
    bias = True

    def start(self, batch: int) -> Carry:
        return self.cast((jnp.zeros((batch, self.features)),) * self.states)

    def cast(self, carry: Carry) -> Carry:
        """Cast h to the compute dtype; the LSTM's C accumulates in float32."""
        *cells, h = carry
        return (*(c.astype(jnp.float32) for c in cells), h.astype(self.dtype))

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        """Return the next carry."""
        raise NotImplementedError

    @nn.compact
    def parts(
        self, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> tuple[Float[Array, "_ c"], Float[Array, "_ c"], Float[Array, "_ c"]]:
        """Return W x + b, the rows of W that multiply `fed`, and U."""
        known, made = (0 if part is None else part.shape[-1] for part in (x, fed))
        start, columns = self.initializers, self.gates * self.features
        W = self.param("W", in_blocks(start.kernel, self.gates), (known + made, columns))
        U = self.param("U", in_blocks(start.recurrent, self.gates), (self.features, columns))
        W, U = W.astype(self.dtype), U.astype(self.dtype)
        total = jnp.zeros((1, columns))
        if self.bias:
            total = self.param("b", nn.initializers.zeros, (columns,))[None]
        if x is not None:
            # Adding b in float32 makes the gradient of b a float32 sum over all time steps. The
            # product keeps the compute dtype, so that its gradients are products in that dtype.
            total = (x.astype(self.dtype) @ W[:known]).astype(jnp.float32) + total
        return total.astype(self.dtype), W[known:], U


def _product(
    fed: Float[Array, "b j"] | None,
    h: Float[Array, "b h"],
    W: Float[Array, "j c"],
    U: Float[Array, "h c"],
) -> Float[Array, "b c"]:
    """Compute W fed + U h as one product."""
    if fed is None:
        return h @ U
    return jnp.concatenate([fed.astype(h.dtype), h], axis=-1) @ jnp.concatenate([W, U])


class Elman(Cell):
    """h = tanh(W x + U h + b)."""

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        (h,) = carry
        known, W, U = self.parts(x, fed)
        return (jnp.tanh(_product(fed, h, W, U) + known),)


class LSTM(Cell):
    """f, i, o = σ(W x + U h + b); C̃ = tanh(W x + U h + b); C = f·C + i·C̃; h = o·tanh(C)."""

    gates = 4
    states = 2

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        c, h = carry
        known, W, U = self.parts(x, fed)
        f, i, o, candidate = jnp.split(_product(fed, h, W, U) + known, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(candidate)
        return self.cast((c, nn.sigmoid(o) * jnp.tanh(c)))


class GRU(Cell):
    """z, r = σ(W x + U h); h̃ = tanh(W x + U (r·h)); h = (1−z)·h + z·h̃ (Cho 2014; no biases).

    The reset gate r is applied before the matrix product, and z = 1 selects the new state. In
    Flax's GRUCell and in cuDNN, r is applied after the product and z = 1 keeps the old state.
    """

    gates = 3
    bias = False

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        (h,) = carry
        parts = (jnp.split(part, [2 * self.features], axis=-1) for part in self.parts(x, fed))
        (known, known_new), (W, W_new), (U, U_new) = parts
        z, r = jnp.split(nn.sigmoid(_product(fed, h, W, U) + known), 2, axis=-1)
        new = jnp.tanh(_product(fed, r * h, W_new, U_new) + known_new)
        return ((1 - z) * h + z * new,)


CELLS: dict[str, type[Cell]] = {"elman": Elman, "lstm": LSTM, "gru": GRU}
