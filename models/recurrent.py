"""Stacks of recurrent layers: uni- or bidirectional, with dropout and residual connections."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float

from models.cells import CELLS, Carry, Cell
from models.dropout import Dropout
from models.initializers import XAVIER, Initializers
from models.scan import scan_module


def run(
    cell: Cell,
    xs: Float[Array, "b t i"],
    mask: Bool[Array, "b t"],
    carry: tuple[Float[Array, "b h"], ...],
    reverse: bool = False,
) -> tuple[Float[Array, "b t h"], Carry]:
    """Run a cell over a padded batch; return its outputs and its final carry.

    At padding positions, the carry is unchanged and the output is zero. With `reverse`, the carry
    therefore keeps its initial value until the loop reaches the last token of the sentence, and
    sentences need not be reversed individually.
    """

    def step(cell: Cell, carry: Carry, inputs: tuple[Array, Array]) -> tuple[Carry, Array]:
        x, real = inputs[0], inputs[1][:, None]
        new = cell.step(carry, x, None)
        carry = tuple(jnp.where(real, n, old) for n, old in zip(new, carry, strict=True))
        return carry, jnp.where(real, carry[-1], 0)

    carry, outputs = scan_module(step, cell, carry, (xs, mask), reverse)
    return outputs, carry


def run_both_ways(
    forward: Cell,
    backward: Cell,
    xs: Float[Array, "b t i"],
    mask: Bool[Array, "b t"],
    carry: tuple[Float[Array, "b h"], ...],
) -> tuple[Float[Array, "b t 2*h"], tuple[Float[Array, "b 2*h"], ...]]:
    """Run two cells, the second one in reverse; concatenate their outputs and final carries.

    Both cells run in the same loop, so each time step computes one batched matrix product for both
    cells.
    """
    if forward.is_initializing():
        for cell in (forward, backward):
            # One time step creates the parameters, which the loop below only reads.
            cell.step(carry, xs[:, 0], None)
    unbound, _ = forward.unbind()

    def run_one(params: Any, xs: Array, mask: Array) -> Any:
        return unbound.apply({"params": params}, xs, mask, carry, method=run)

    params = (cell.variables["params"] for cell in (forward, backward))
    outputs, carries = jax.vmap(run_one)(
        jax.tree.map(lambda *both: jnp.stack(both), *params),
        jnp.stack([xs, xs[:, ::-1]]),
        jnp.stack([mask, mask[:, ::-1]]),
    )
    outputs = jnp.stack([outputs[0], outputs[1, :, ::-1]])
    return jax.tree.map(lambda x: jnp.concatenate([*x], axis=-1), (outputs, carries))


class Stack(nn.Module):
    """Stack of recurrent layers with the same type of cell.

    Dropout is applied to the input of every layer, but not to the recurrent connections (Zaremba
    2014). Residual connections add the input of a layer to its output, except in the first layer.
    """

    cell: str
    features: int
    layers: int
    bidirectional: bool = False
    reverse: bool = False
    residual: bool = False
    dropout: float = 0.0
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        assert not (self.bidirectional and self.reverse), "set bidirectional or reverse, not both"

        def cells(direction: str) -> list[Cell]:
            make = CELLS[self.cell]
            return [
                make(self.features, self.initializers, self.dtype, name=f"{direction}{i}")
                for i in range(self.layers)
            ]

        self.first = cells("backward" if self.reverse else "forward")
        self.second = cells("backward") if self.bidirectional else []
        self.drop = Dropout(self.dropout)

    def start(self, batch: int) -> tuple[Carry, ...]:
        """Return the initial carry of every layer."""
        return tuple(cell.start(batch) for cell in self.first)

    def cast(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        """Cast the carry of every layer to the dtypes that its cell uses."""
        return tuple(cell.cast(c) for cell, c in zip(self.first, carries, strict=True))

    def __call__(
        self,
        x: Float[Array, "b t i"],
        mask: Bool[Array, "b t"],
        carries: tuple[Carry, ...] | None = None,
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t h"], tuple[Carry, ...]]:
        """Return the outputs of the top layer and the final carry of every layer.

        A bidirectional stack concatenates the forward and backward outputs and carries.
        """
        carries = carries or self.start(x.shape[0])
        finals = []
        for i, cell in enumerate(self.first):
            y = self.drop(x, deterministic=deterministic)
            if self.bidirectional:
                output, final = run_both_ways(cell, self.second[i], y, mask, carries[i])
            else:
                output, final = run(cell, y, mask, carries[i], self.reverse)
            x = output + x if self.residual and i > 0 else output
            finals.append(final)
        return x, tuple(finals)

    def step(
        self,
        carries: tuple[Carry, ...],
        x: Float[Array, "b i"],
        fed: Float[Array, "b j"] | None = None,
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b h"], tuple[Carry, ...]]:
        """Compute one time step of all layers; the first reads x and `fed`, such as a context."""

        def drop(part: Array) -> Array:
            return self.drop(part, deterministic=deterministic)

        finals = [self.first[0].step(carries[0], drop(x), None if fed is None else drop(fed))]
        y = finals[0][-1]
        for cell, carry in zip(self.first[1:], carries[1:], strict=True):
            finals.append(cell.step(carry, None, drop(y)))
            y = finals[-1][-1] + y if self.residual else finals[-1][-1]
        return y, tuple(finals)
