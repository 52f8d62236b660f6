"""Recurrent cells, as defined in their papers.

A cell reads up to two inputs per time step. The input x is known for all time steps before the loop
starts, so models/scan.py computes its product with the matrix W for all time steps at once. The
input `fed` is computed inside the loop (the output of the layer below, a context vector, input
feeding), so it is concatenated with the hidden state for a single matrix product. A carry, the
state between two time steps, is a tuple whose last entry is the hidden state h.
"""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Float

from models.initializers import XAVIER, Initializers, in_blocks

Carry = tuple[Float[Array, "b _"], ...]


class Cell(nn.Module):
    """Base class of cells, with the parameters W (inputs), U (hidden state) and b (bias).

    Each parameter has one block of columns per gate.
    """

    features: int
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    gates = 1
    states = 1  # number of arrays in the cell's carry
    bias = True

    def start(self, batch: int) -> Carry:
        """Return an initial carry of zeros."""
        return self.cast((jnp.zeros((batch, self.features)),) * self.states)

    def cast(self, carry: Carry) -> Carry:
        """Cast the hidden state h to the compute dtype, and the LSTM's cell state C to float32."""
        *cells, h = carry
        return (*(c.astype(jnp.float32) for c in cells), h.astype(self.dtype))

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        """Read the inputs of one time step and return the next carry."""
        raise NotImplementedError

    @nn.compact
    def project_input(
        self, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> tuple[Float[Array, "_ c"], Float[Array, "_ c"], Float[Array, "_ c"]]:
        """Return W x + b, the rows of the input matrix W that multiply `fed`, and the matrix U."""
        x_width, fed_width = (0 if part is None else part.shape[-1] for part in (x, fed))
        init, columns = self.initializers, self.gates * self.features
        W = self.param("W", in_blocks(init.kernel, self.gates), (x_width + fed_width, columns))
        U = self.param("U", in_blocks(init.recurrent, self.gates), (self.features, columns))
        W, U = W.astype(self.dtype), U.astype(self.dtype)
        projected = jnp.zeros((1, columns))
        if self.bias:
            projected = self.param("b", nn.initializers.zeros, (columns,))[None]
        if x is not None:
            # Adding b in float32 makes the gradient of b a float32 sum over all time steps. The
            # product keeps the compute dtype, so that its gradients are products in that dtype.
            projected = (x.astype(self.dtype) @ W[:x_width]).astype(jnp.float32) + projected
        return projected.astype(self.dtype), W[x_width:], U


def _product(
    fed: Float[Array, "b j"] | None,
    h: Float[Array, "b h"],
    W: Float[Array, "j c"],
    U: Float[Array, "h c"],
) -> Float[Array, "b c"]:
    """Compute W fed + U h as one matrix product; without `fed`, compute U h."""
    if fed is None:
        return h @ U
    return jnp.concatenate([fed.astype(h.dtype), h], axis=-1) @ jnp.concatenate([W, U])


class Elman(Cell):
    """Simple recurrent cell (Elman 1990): h = tanh(W x + U h + b)."""

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        (h,) = carry
        projected, W, U = self.project_input(x, fed)
        return (jnp.tanh(_product(fed, h, W, U) + projected),)


class LSTM(Cell):
    """LSTM cell with forget gate and without peephole connections.

    f, i, o = σ(W x + U h + b); C̃ = tanh(W x + U h + b); C = f·C + i·C̃; h = o·tanh(C). The gates
    f, i and o and the candidate C̃ each use a different block of columns of W, U and b.
    """

    gates = 4
    states = 2

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        c, h = carry
        projected, W, U = self.project_input(x, fed)
        f, i, o, candidate = jnp.split(_product(fed, h, W, U) + projected, 4, axis=-1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(candidate)
        return self.cast((c, nn.sigmoid(o) * jnp.tanh(c)))


class GRU(Cell):
    """GRU cell without biases (Cho 2014).

    z, r = σ(W x + U h); h̃ = tanh(W x + U (r·h)); h = (1−z)·h + z·h̃. The reset gate r is applied
    before the product with U, and the update gate z = 1 selects the new state h̃. The code of the
    paper has a bias in h̃ (docs/differences.md).
    """

    gates = 3
    bias = False

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        (h,) = carry
        (gate_input, candidate_input), (W, W_candidate), (U, U_candidate) = (
            jnp.split(part, [2 * self.features], axis=-1) for part in self.project_input(x, fed)
        )
        z, r = jnp.split(nn.sigmoid(_product(fed, h, W, U) + gate_input), 2, axis=-1)
        candidate = jnp.tanh(_product(fed, r * h, W_candidate, U_candidate) + candidate_input)
        return ((1 - z) * h + z * candidate,)


class ResetAfterGRU(Cell):
    """GRU cell with biases that applies the reset gate r after the product with U (Yang 2016).

    z, r = σ(W x + U h + b); h̃ = tanh(W x + r·(U h) + b); h = (1−z)·h + z·h̃ (eqs. 1 to 4). Flax,
    PyTorch and cuDNN also add a bias to U h, and their update gate z = 1 keeps the old state h.
    """

    gates = 3

    def step(
        self, carry: Carry, x: Float[Array, "b i"] | None, fed: Float[Array, "b j"] | None
    ) -> Carry:
        (h,) = carry
        projected, W, U = self.project_input(x, fed)
        if fed is not None:
            # W fed must not be multiplied by r, so it cannot share a matrix product with U h.
            projected = projected + fed.astype(h.dtype) @ W
        (gate_input, candidate_input), (gate_state, candidate_state) = (
            jnp.split(part, [2 * self.features], axis=-1) for part in (projected, h @ U)
        )
        z, r = jnp.split(nn.sigmoid(gate_input + gate_state), 2, axis=-1)
        candidate = jnp.tanh(candidate_input + r * candidate_state)
        return ((1 - z) * h + z * candidate,)


CELLS: dict[str, type[Cell]] = {
    "elman": Elman,
    "lstm": LSTM,
    "gru": GRU,
    "gru_reset_after": ResetAfterGRU,
}
