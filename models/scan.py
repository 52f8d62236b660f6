"""A scan that does in its loop only what must be done there.

A recurrent step is small, and a device waits for its kernels one after the other: what a loop costs
is how much stands in it. So `scan` sorts the operations of a step by what they need.

- What needs only weights and other things that all steps share (a cast, two kernels as one) is
  computed once, before the loop.
- What needs the inputs of its step but no carry (the input's projection, a dropout mask) is
  computed for all steps at once, before the loop.
- The rest is the loop. Its products with something shared, xₜ W, have gradients of two kinds. That
  of xₜ belongs to the backward loop. That of W is Σₜ xₜᵀ gₜ, with gₜ the gradient of the product: a
  plain scan adds up a matrix of W's size at every step. Here the forward loop keeps every xₜ, the
  backward loop every gₜ, and one contraction over all steps follows. Keys and values that attention
  reads at every step are shared things like weights; biases are alike, with a sum in place of the
  contraction.

Steps are written as if none of this existed; but what they print comes in no order of steps, and
only the first derivative is right, by reverse mode. The price is memory: some gₜ are written twice,
for they are the gradients of a step's inputs as well (376 instead of 277 MB for a 2 × 256 model and
64 sentences of 50 words).
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import Array
from jax.extend import core
from jax.extend.core import primitives

# What a value needs. Something made of numbers alone is made again wherever it is read.
NOTHING, SHARED, INPUT, CARRY = range(4)

# Steps in a loop's body. A GPU is sent a body's kernels together, as one graph: on an H200 a step
# of training a 2 × 512 LSTM takes 10.3 ms with 2, 8.8 with 5 and 8.7 with 10, and 3.6, 5.0 and 8.4
# seconds to compile.
UNROLL = 5


def unroll() -> int:
    """Return the number of time steps in one iteration of a loop."""
    return 1 if jax.default_backend() == "cpu" else UNROLL


def scan(
    step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any, reverse: bool = False
) -> tuple[Any, Any]:
    """`jax.lax.scan(step, carry, xs, reverse=reverse)`, faster."""
    first = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), xs)
    jaxpr, shapes = jax.make_jaxpr(step, return_shape=True)(carry, first)
    if jax.tree.structure(shapes[0]) != jax.tree.structure(carry):
        raise TypeError("a step must return a carry of the structure that it was given")
    carried, inputs = jax.tree.leaves(carry), jax.tree.leaves(xs)
    constants = [Value(SHARED) for _ in jaxpr.consts]
    carries, own = [Value(CARRY) for _ in carried], [Value(INPUT) for _ in inputs]
    operations: list[Operation] = []
    outputs = _flatten(jaxpr.jaxpr, [*constants, *carries, *own], operations)

    def needing(*needs: int) -> list[Operation]:
        return [op for op in operations if op.needs in needs]

    read = [x for op in needing(CARRY) for x in op.inputs] + outputs

    def wanted(needs: int) -> list[Value]:
        return list(dict.fromkeys(x for x in read if _needs(x) == needs))

    shared = dict(zip(constants, jaxpr.consts, strict=True))
    _perform(needing(NOTHING, SHARED), shared)

    def before(inputs: list[Array]) -> list[Array]:
        known = shared | dict(zip(own, inputs, strict=True))
        _perform(needing(NOTHING, INPUT), known)
        return [known[x] for x in wanted(INPUT)]

    inner = needing(NOTHING, CARRY)
    loop = Loop(carries, wanted(SHARED), wanted(INPUT), outputs, inner, len(inputs[0]), reverse)
    flat = loop([shared[x] for x in loop.shared], carried, jax.vmap(before)(inputs))
    return jax.tree.unflatten(jax.tree.structure(shapes), flat)


def scan_module(
    step: Callable[[Any, Any, Any], tuple[Any, Any]],
    module: nn.Module,
    carry: Any,
    xs: Any,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`scan` of `step(module, carry, x)` along axis 1 of `xs`. Each step draws numbers of its own
    (dropout, samples); what it sows for REINFORCE, once by each name, is sown for all steps. Of
    variables it has parameters alone."""
    length = jax.tree.leaves(xs)[0].shape[1]
    if module.is_initializing():  # one step makes all weights, which a loop could not do
        carry, y = step(module, carry, jax.tree.map(lambda x: x[:, 0], xs))
        return carry, jax.tree.map(lambda x: jnp.stack([x] * length, axis=1), y)
    alone, variables = module.unbind()
    rngs = {
        name: jax.random.split(module.make_rng(name), length)
        for name in ("dropout", "sample")
        if module.has_rng(name)
    }

    def body(carry: Any, inputs: Any) -> tuple[Any, Any]:
        x, rngs = inputs
        (carry, y), sown = alone.apply(
            {"params": variables["params"]}, carry, x, rngs=rngs, method=step, mutable="reinforce"
        )
        return carry, (y, sown)

    by_step = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), xs)
    carry, (ys, sown) = scan(body, carry, (by_step, rngs), reverse)
    flat: Any = traverse_util.flatten_dict(sown.get("reinforce", {}))
    for path, values in flat.items():
        module.sow("reinforce", path[-1], jnp.swapaxes(values[0], 0, 1))
    return carry, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), ys)


# A step taken apart.


class Value:
    """A variable of a step."""

    def __init__(self, needs: int):
        self.needs = needs


def _needs(value: Any) -> int:
    return value.needs if isinstance(value, Value) else NOTHING


class Operation(NamedTuple):
    equation: core.JaxprEqn
    call: Callable[..., list[Any]]
    inputs: list[Any]  # Values, or numbers
    outputs: list[Value]
    needs: int

    @property
    def shapes(self) -> list[jax.ShapeDtypeStruct]:
        """Of inputs, then of outputs."""
        avals: list[Any] = [x.aval for x in (*self.equation.invars, *self.equation.outvars)]
        return [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]


def _flatten(jaxpr: core.Jaxpr, inputs: Sequence[Any], operations: list[Operation]) -> list[Any]:
    """Adds a jaxpr's operations and, in their place, those of the functions that it calls; its
    outputs."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], inputs, strict=True))

    def value(x: Any) -> Any:
        return x.val if isinstance(x, core.Literal) else values[x]

    for equation in jaxpr.eqns:
        own = [value(x) for x in equation.invars]
        if equation.primitive is primitives.jit_p:
            called = equation.params["jaxpr"]
            outputs = _flatten(called.jaxpr, [*called.consts, *own], operations)
        else:
            needs = max(map(_needs, own), default=NOTHING)
            outputs = [Value(needs) for _ in equation.outvars]
            variables = list(dict.fromkeys(x for x in equation.invars if isinstance(x, core.Var)))
            alone = jaxpr.replace(
                constvars=[], invars=variables, outvars=equation.outvars, eqns=[equation]
            )
            call = core.jaxpr_as_fun(core.ClosedJaxpr(alone, ()))
            read = [values[x] for x in variables]
            operations.append(Operation(equation, call, read, outputs, needs))
        values.update(zip(equation.outvars, outputs, strict=True))
    return [value(x) for x in jaxpr.outvars]


def _perform(operations: Iterable[Operation], known: dict[Value, Any]) -> None:
    for op in operations:
        known.update(zip(op.outputs, op.call(*_look_up(op.inputs, known)), strict=True))


def _look_up(values: list[Any], known: dict[Value, Any]) -> list[Any]:
    return [known[x] if isinstance(x, Value) else x for x in values]


# What is left of it.


@dataclasses.dataclass(frozen=True)
class Loop:
    carry: list[Value]
    shared: list[Value]
    inputs: list[Value]
    outputs: list[Any]  # the next carry, and what the step returns
    operations: list[Operation]
    length: int
    reverse: bool

    @functools.cached_property
    def linears(self) -> list["Linear | None"]:
        return [_as_linear(op) for op in self.operations]

    def __call__(self, shared: list[Array], carry: list[Array], inputs: list[Array]) -> list[Array]:
        """The last carry and the outputs of all steps."""
        linears = [linear for linear in self.linears if linear is not None]

        @jax.custom_vjp
        def run(shared: list[Array], carry: list[Array], inputs: list[Array]) -> list[Array]:
            return self._run(shared, carry, inputs, None)[0]

        def forward(*arguments: list[Array]) -> tuple[list[Array], Any]:
            sinks = [jnp.zeros((self.length, *x.sink.shape), x.sink.dtype) for x in linears]
            outputs, backward, kept = jax.vjp(self._run, *arguments, sinks, has_aux=True)
            return outputs, (backward, kept, arguments[0])

        def backward(residuals: Any, gradients: list[Array]) -> tuple[list[Array], ...]:
            run_backward, kept, shared = residuals
            of_shared, of_carry, of_inputs, of_sinks = run_backward(gradients)
            for linear, xs, gs in zip(linears, kept, of_sinks, strict=True):
                i = self.shared.index(linear.shared)
                of_shared[i] += linear.shared_gradient(xs, gs, shared[i])
            return of_shared, of_carry, of_inputs

        run.defvjp(forward, backward)
        return run(shared, carry, inputs)

    def _run(
        self,
        shared: list[Array],
        carry: list[Array],
        inputs: list[Array],
        sinks: list[Array] | None,
    ) -> tuple[list[Array], list[Array | None]]:
        """With sinks, `Linear` operations leave their gradients gₜ there, and none in what is
        shared; the xₜ of products are returned beside the outputs."""
        fixed = dict(zip(self.shared, map(jax.lax.stop_gradient, shared), strict=True))

        def step(carry: list[Array], own: Any) -> tuple[list[Array], Any]:
            inputs, sinks = own
            known: dict[Value, Any] = dict(zip(self.shared, shared, strict=True))
            known.update(zip(self.carry, carry, strict=True))
            known.update(zip(self.inputs, inputs, strict=True))
            kept = []
            for op, linear in zip(self.operations, self.linears, strict=True):
                values = _look_up(op.inputs, known)
                if linear is None or sinks is None:
                    outputs = op.call(*values)
                else:
                    x = values[1 - linear.side]
                    outputs = [linear.with_sink(x, fixed[linear.shared], sinks[len(kept)])]
                    kept.append(None if linear.adds else x)
                known.update(zip(op.outputs, outputs, strict=True))
            results = _look_up(self.outputs, known)
            return results[: len(carry)], (results[len(carry) :], kept)

        carry, (outputs, kept) = jax.lax.scan(
            step, carry, (inputs, sinks), length=self.length, reverse=self.reverse, unroll=unroll()
        )
        return [*carry, *outputs], kept


class Linear(NamedTuple):
    """An operation between xₜ and something shared, linear in it: a product, or adding a bias."""

    operation: Operation
    side: int  # of what is shared

    @property
    def shared(self) -> Value:
        return self.operation.inputs[self.side]

    @property
    def sink(self) -> jax.ShapeDtypeStruct:
        """The shape of gₜ. It has xₜ's type, though the product may be of a finer one."""
        return jax.ShapeDtypeStruct(self.operation.shapes[-1].shape, self._own.dtype)

    @property
    def _own(self) -> jax.ShapeDtypeStruct:
        """The shape of xₜ."""
        return self.operation.shapes[1 - self.side]

    @property
    def adds(self) -> bool:
        return self.operation.equation.primitive is primitives.add_p

    def with_sink(self, x: Array, shared: Array, sink: Array) -> Array:
        def forward(x: Array, shared: Array, sink: Array) -> tuple[Array, Array]:
            sides = (shared, x) if self.side == 0 else (x, shared)
            return self.operation.call(*sides)[0], shared

        def backward(shared: Array, g: Array) -> tuple[Array, None, Array]:
            g = g.astype(self.sink.dtype)
            if self.adds:
                return g, None, g
            of_x = jax.linear_transpose(lambda x: self._multiply(x, shared), self._own)
            return of_x(g)[0], None, g

        result = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
        result.defvjp(forward, backward)
        return result(x, shared, sink)

    def shared_gradient(self, xs: Array | None, gs: Array, shared: Array) -> Array:
        """From every xₜ, where it is a product's, and gₜ."""
        if xs is None:  # summed in float32: thousands of bfloat16 do not add up
            broad = lambda x: jnp.broadcast_to(x, gs.shape)  # noqa: E731
            fine = jax.ShapeDtypeStruct(shared.shape, jnp.float32)
            return jax.linear_transpose(broad, fine)(gs.astype(fine.dtype))[0].astype(shared.dtype)
        products = jax.vmap(self._multiply, in_axes=(0, None))
        return jax.linear_transpose(lambda x: products(xs, x), shared)(gs)[0]

    def _multiply(self, x: Array, shared: Array) -> Array:
        params = self.operation.equation.params
        sides = (shared, x) if self.side == 0 else (x, shared)
        return jax.lax.dot_general(*sides, params["dimension_numbers"], params["precision"])


def _as_linear(op: Operation) -> Linear | None:
    sides = [_needs(x) for x in op.inputs]
    if sorted(sides) != [SHARED, CARRY]:
        return None
    linear = Linear(op, sides.index(SHARED))
    if not jnp.issubdtype(linear.sink.dtype, jnp.inexact):
        return None  # numbers that have no gradients
    if linear.adds:
        # A bias. Of something as large as the sum, every step's gₜ would be as large as their sum.
        shared, own, result = op.shapes[linear.side], op.shapes[1 - linear.side], op.shapes[-1]
        return linear if shared.size < own.size == result.size else None
    return linear if op.equation.primitive is primitives.dot_general_p else None
