"""Recurrent cells, exactly as their papers define them.

A step reads inputs of two kinds: x, which is known for all steps before a loop begins, so that
models/scan.py takes its product out of the loop; and `fed`, which is made in the loop (the output
of the layer below, a context, input feeding), so that it shares a product with the last hidden
state.
A carry is a tuple whose last entry is the hidden state h.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from models.initializers import XAVIER, Initializers, in_blocks

Carry = tuple[Array, ...]


class Cell(nn.Module):
    """What the cells share: W for all inputs, U for h, and b, of all `gates` side by side."""

    features: int
    start_weights: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    gates = 1
    states = 1
    bias = True

    def start(self, batch: int) -> Carry:
        return self.cast((jnp.zeros((batch, self.features)),) * self.states)

    def cast(self, carry: Carry) -> Carry:
        """A carry in the cell's own types: h is computed with, the LSTM's C adds up, in float32."""
        *cells, h = carry
        return (*(c.astype(jnp.float32) for c in cells), h.astype(self.dtype))

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        raise NotImplementedError

    @nn.compact
    def parts(self, x: Array | None, fed: Array | None) -> tuple[Array, Array, Array]:
        """W x + b, and W and U of what the loop makes."""
        known, made = (0 if part is None else part.shape[-1] for part in (x, fed))
        start, columns = self.start_weights, self.gates * self.features
        W = self.param("W", in_blocks(start.kernel, self.gates), (known + made, columns))
        U = self.param("U", in_blocks(start.recurrent, self.gates), (self.features, columns))
        W, U = W.astype(self.dtype), U.astype(self.dtype)
        total = jnp.zeros((1, columns))
        if self.bias:
            total = self.param("b", nn.initializers.zeros, (columns,))[None]
        if x is not None:
            # The sum with b is of float32, and so is the sum of b's gradients over all steps. The
            # product is not, or those of its gradients would be of float32 as well.
            total = (x.astype(self.dtype) @ W[:known]).astype(jnp.float32) + total
        return total.astype(self.dtype), W[known:], U


def _product(fed: Array | None, h: Array, W: Array, U: Array) -> Array:
    """W fed + U h as one product."""
    if fed is None:
        return h @ U
    return jnp.concatenate([fed.astype(h.dtype), h], axis=-1) @ jnp.concatenate([W, U])


class Elman(Cell):
    """h = tanh(W x + U h + b)."""

    def step(self, carry: Carry, x: Array | None, fed: Array | None) -> Carry:
        (h,) = carry
        known, W, U = self.parts(x, fed)
        return (jnp.tanh(_product(fed, h, W, U) + known),)


class LSTM(Cell):
    """f, i, o = σ(W x + U h + b); C̃ = tanh(W x + U h + b); C = f·C + i·C̃; h = o·tanh(C)."""

    gates = 4
    states = 2

    def step(self, carry: Carry, x: Array | None, fed: Array | None) -> Carry:
        c, h = carry
        known, W, U = self.parts(x, fed)
        f, i, o, candidate = jnp.split(_product(fed, h, W, U) + known, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(candidate)
        return self.cast((c, nn.sigmoid(o) * jnp.tanh(c)))


class GRU(Cell):
    """z, r = σ(W x + U h); h̃ = tanh(W x + U (r·h)); h = (1−z)·h + z·h̃ (Cho 2014; no biases).

    The reset gate acts before the matrix product. Flax's GRUCell and cuDNN apply it after, and
    let z keep the old state where here it admits the new one.
    """

    gates = 3
    bias = False

    def step(self, carry: Carry, x: Array | None, fed: Array | None) -> Carry:
        (h,) = carry
        parts = (jnp.split(part, [2 * self.features], axis=-1) for part in self.parts(x, fed))
        (known, known_new), (W, W_new), (U, U_new) = parts
        z, r = jnp.split(nn.sigmoid(_product(fed, h, W, U) + known), 2, axis=-1)
        new = jnp.tanh(_product(fed, r * h, W_new, U_new) + known_new)
        return ((1 - z) * h + z * new,)


CELLS: dict[str, type[Cell]] = {"elman": Elman, "lstm": LSTM, "gru": GRU}
