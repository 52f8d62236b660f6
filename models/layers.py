"""Stacks of layers with the same shape, unrolled or with a loop over the layers."""

import operator
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from models.multihead import LayerShape

_UNROLLED = "unrolled_"  # Flax adds the number of the layer to the name of the list in `Layers`


class Layers(nn.Module):
    """Stack of layers of the same type.

    By default the layers are unrolled. With `scan`, their parameters are stacked and a loop runs
    over them, so that only one layer is compiled. With `remat`, activations are recomputed in the
    backward pass instead of being stored.
    """

    layer: type[nn.Module]
    shape: LayerShape
    depth: int  # number of encoder or decoder layers
    scan: bool = False
    remat: bool = False

    def setup(self) -> None:
        if self.scan:
            self.stacked = self.layer(self.shape)
        else:
            self.unrolled = [self.layer(self.shape) for _ in range(self.depth)]
        self.norm = nn.LayerNorm(dtype=self.shape.dtype) if self.shape.pre_norm else None

    def through(
        self, body: Callable[[Any, Any, Any], tuple[Any, Any]], x: Any, inputs: Any
    ) -> tuple[Any, Any]:
        """Apply `body(layer, x, input) -> x, output` layer by layer; return x and all outputs.

        The inputs and outputs of the layers are tuples. With `scan` they are stacked along axis 1,
        so that the batch stays the first axis.
        """
        body = nn.remat(body, prevent_cse=not self.scan) if self.remat else body
        if self.scan:
            scan = nn.scan(
                body,
                variable_axes={"params": 0, "attention": 0},
                split_rngs={"params": True, "dropout": True},
                in_axes=1,
                out_axes=1,
                length=self.depth,
            )
            return scan(self.stacked, x, inputs)
        outputs = []
        for i, layer in enumerate(self.unrolled):
            x, output = body(layer, x, None if inputs is None else inputs[i])
            outputs.append(output)
        return x, tuple(outputs)

    def finish(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        """Normalize the output of pre-norm layers; post-norm layers are normalized already."""
        return x if self.norm is None else self.norm(x)

    def pick(self, outputs: Any, i: int) -> Any:
        """Return the output of layer i from the outputs of `through`."""
        return jax.tree.map(lambda x: x[:, i], outputs) if self.scan else outputs[i]


def unroll_layers(params: dict[str, Any]) -> dict[str, Any]:
    """Convert the parameters of a model with `Layers.scan` to those without it."""

    def layers(stack: dict[str, Any]) -> dict[str, Any]:
        stacked, depth = stack["stacked"], len(jax.tree.leaves(stack["stacked"])[0])
        each = {
            f"{_UNROLLED}{i}": jax.tree.map(operator.itemgetter(i), stacked) for i in range(depth)
        }
        return each | {name: part for name, part in stack.items() if name != "stacked"}

    return params | {name: layers(params[name]) for name in ("encoder", "decoder")}


def stack_layers(params: dict[str, Any]) -> dict[str, Any]:
    """Convert the parameters of a model without `Layers.scan` to those with it."""

    def layers(stack: dict[str, Any]) -> dict[str, Any]:
        names = sorted((n for n in stack if n.startswith(_UNROLLED)), key=_layer_number)
        stacked = jax.tree.map(lambda *each: jnp.stack(each), *(stack[name] for name in names))
        rest = {name: part for name, part in stack.items() if name not in names}
        return {"stacked": stacked, **rest}

    return params | {name: layers(params[name]) for name in ("encoder", "decoder")}


def has_stacked_layers(params: dict[str, Any]) -> bool:
    """Return whether parameters are those of a model with `Layers.scan`."""
    return "stacked" in params.get("encoder", {})


def _layer_number(name: str) -> int:
    return int(name.removeprefix(_UNROLLED))
