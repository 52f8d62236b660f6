"""Layers of cells over time: uni- or bidirectional, stacked, with dropout and residuals."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float

from models.cells import CELLS, Carry, Cell
from models.initializers import XAVIER, Initializers
from models.scan import scan_module


def run(
    cell: Cell,
    xs: Float[Array, "b t i"],
    mask: Bool[Array, "b t"],
    carry: Carry,
    reverse: bool = False,
) -> tuple[Float[Array, "b t h"], Carry]:
    """Runs a cell along a padded batch; outputs at padding are zero, the carry skips it.

    Because padding leaves the carry alone, running backwards needs no reversal of the sentences:
    the carry stays at its start until the last real token.
    """

    def step(cell: Cell, carry: Carry, inputs: tuple[Array, Array]) -> tuple[Carry, Array]:
        x, real = inputs[0], inputs[1][:, None]
        new = cell.step(carry, x, None)
        carry = tuple(jnp.where(real, n, old) for n, old in zip(new, carry, strict=True))
        return carry, carry[-1] * real

    carry, outputs = scan_module(step, cell, carry, (xs, mask), reverse)
    return outputs, carry


def run_both_ways(
    forward: Cell,
    backward: Cell,
    xs: Float[Array, "b t i"],
    mask: Bool[Array, "b t"],
    carry: Carry,
) -> tuple[Float[Array, "b t 2h"], Carry]:
    """`run` of two cells, one of them in reverse, side by side: each step is one product for both.
    Outputs and carries are concatenated forward, backward."""
    if forward.is_initializing():
        pair = run(forward, xs, mask, carry), run(backward, xs, mask, carry, reverse=True)
        outputs, carries = jax.tree.map(lambda *both: jnp.stack(both), *pair)
    else:
        alone, _ = forward.unbind()
        weights = (cell.variables["params"] for cell in (forward, backward))

        def one(weights: Any, xs: Array, mask: Array) -> Any:
            return alone.apply({"params": weights}, xs, mask, carry, method=run)

        outputs, carries = jax.vmap(one)(
            jax.tree.map(lambda *both: jnp.stack(both), *weights),
            jnp.stack([xs, xs[:, ::-1]]),
            jnp.stack([mask, mask[:, ::-1]]),
        )
        outputs = jnp.stack([outputs[0], outputs[1, :, ::-1]])
    return jax.tree.map(lambda x: jnp.concatenate([*x], axis=-1), (outputs, carries))


class Stack(nn.Module):
    """Layers of one kind of cell.

    Dropout acts on every layer's input, never on the recurrent path (Zaremba 2014). A residual
    connection adds a layer's input to its output from the second layer on.
    """

    cell: str
    features: int
    layers: int
    bidirectional: bool = False
    reverse: bool = False
    residual: bool = False
    dropout: float = 0.0
    start_weights: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        assert not (self.bidirectional and self.reverse), "both ways have no reverse"

        def cells(direction: str) -> list[Cell]:
            make = CELLS[self.cell]
            return [
                make(self.features, self.start_weights, self.dtype, name=f"{direction}{i}")
                for i in range(self.layers)
            ]

        self.first = cells("backward" if self.reverse else "forward")
        self.second = cells("backward") if self.bidirectional else []
        self.drop = nn.Dropout(self.dropout)

    def start(self, batch: int) -> tuple[Carry, ...]:
        return tuple(cell.start(batch) for cell in self.first)

    def cast(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return tuple(cell.cast(c) for cell, c in zip(self.first, carries, strict=True))

    def __call__(
        self,
        x: Float[Array, "b t i"],
        mask: Bool[Array, "b t"],
        carries: tuple[Carry, ...] | None = None,
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t h"], tuple[Carry, ...]]:
        """Outputs of the top layer and every layer's final carry.

        With two directions, outputs and carries are the concatenation forward, backward.
        """
        carries = carries or self.start(len(x))
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
        """One time step through all layers, for decoders. The first layer reads x and `fed`."""

        def drop(part: Array) -> Array:
            return self.drop(part, deterministic=deterministic)

        finals = [self.first[0].step(carries[0], drop(x), None if fed is None else drop(fed))]
        y = finals[0][-1]
        for cell, carry in zip(self.first[1:], carries[1:], strict=True):
            finals.append(cell.step(carry, None, drop(y)))
            y = finals[-1][-1] + y if self.residual else finals[-1][-1]
        return y, tuple(finals)
