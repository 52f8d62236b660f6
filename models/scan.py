"""A `jax.lax.scan` that computes as little as possible inside its loop.

The time steps of a recurrent model run one after another, so its speed depends on how much work
each of them does. `scan` traces the step function and sorts its operations by `Stage`: operations
that do not depend on the carry run before the loop, either once or for all time steps in parallel.

Weight gradients are computed after the loop. Let the loop contain the product yₜ = xₜ W, where W is
shared by all time steps, and let gₜ be the gradient of the loss with respect to yₜ. Then

    dxₜ = gₜ Wᵀ       belongs to the backward loop, because time step t − 1 needs it;
    dW = Σₜ xₜᵀ gₜ    does not.

`jax.lax.scan` adds xₜᵀ gₜ to an array of W's size at every time step. Here the forward loop stores
every xₜ, the backward loop stores every gₜ, and one contraction over all time steps follows. The
keys and values of attention are shared by all time steps and are treated like weights. For a bias,
which is added instead of multiplied, the contraction is the sum Σₜ gₜ.

On GPUs, the forward loop stores only the results of products and reductions, and the backward loop
recomputes elementwise operations, which takes less time than storing and loading their results.

Step functions are written as for `jax.lax.scan`, with two limits: only first derivatives in reverse
mode are correct, and side effects such as `jax.debug.print` are not ordered by time step. Storing
every gₜ costs memory. docs/performance_decisions.md compares both scans.

`hoist` prepares a function for other loops, such as beam search, which need no gradients.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax import Array
from jax.extend import core
from jax.extend.core import primitives

# Time steps per loop iteration on GPUs; a larger number compiles more slowly and gains little speed
# (docs/performance_decisions.md#loops-of-five-time-steps-on-gpus).
UNROLL = 5


def unroll() -> int:
    """Return the number of time steps per loop iteration for the default backend."""
    return 1 if jax.default_backend() == "cpu" else UNROLL


def recomputes() -> bool:
    """Return whether backward loops recompute elementwise operations, for the default backend."""
    return jax.default_backend() != "cpu"


def is_stored(primitive: core.Primitive, *_: Any, **__: Any) -> bool:
    """Return whether the forward loop stores the results of an operation for the backward loop."""
    return primitive in (primitives.dot_general_p, primitives.reduce_max_p, primitives.reduce_sum_p)


class Stage(enum.IntEnum):
    """Earliest time at which a value can be computed.

    The stage of an operation is the latest stage among its operands.
    """

    CONSTANT = 0  # value depends on literals only: it is recomputed where it is used
    SHARED = 1  # the same for all time steps, such as a cast weight: computed once, before the loop
    INPUT = 2  # depends on the input of a time step: computed for all time steps before the loop
    CARRY = 3  # value depends on the carry: it is computed inside the loop


def scan(
    step: Callable[[Any, Any], tuple[Any, Any]], carry: Any, xs: Any, reverse: bool = False
) -> tuple[Any, Any]:
    """Return the same results as `jax.lax.scan(step, carry, xs, reverse=reverse)`."""
    x = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), xs)
    # Disabling jit inlines the operations of jitted functions, such as jnp.einsum, in the jaxpr.
    with jax.disable_jit():
        traced, shapes = jax.make_jaxpr(step, return_shape=True)(carry, x)
    given, returned = jax.tree.structure((carry, shapes[0])).children()
    if given != returned:
        raise TypeError(
            "the step must return a carry with the structure of its input carry: "
            f"the input carry {given} differs from the returned carry {returned}"
        )
    carries, inputs = jax.tree.leaves(carry), jax.tree.leaves(xs)
    before_all, before_each, body = _split(traced.jaxpr, len(carries))
    shared_by_inputs, shared_by_loop = _shared_values(before_all, traced.consts, before_each, body)
    prepared = jax.vmap(lambda inputs: _call(before_each, [*shared_by_inputs, *inputs]))(inputs)
    results = _loop(body, shared_by_loop, carries, prepared, inputs[0].shape[0], reverse)
    return jax.tree.unflatten(jax.tree.structure(shapes), results)


def scan_module(
    step: Callable[[Any, Any, Any], tuple[Any, Any]],
    module: nn.Module,
    carry: Any,
    xs: Any,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Scan `step(module, carry, x)` along axis 1 of `xs`, the time axis of inputs and outputs.

    Each time step has separate random keys for dropout and sampling. Values that a step sows in the
    collection "auxiliary" (at most one per name) are stacked over time steps and sown by `module`.
    The step may not read variables other than parameters.
    """
    if module.is_initializing():  # one step creates the parameters, which a loop cannot do
        step(module, carry, jax.tree.map(lambda x: x[:, 0], xs))
    unbound, variables = module.unbind()
    length = jax.tree.leaves(xs)[0].shape[1]
    keys = {
        name: jax.random.split(module.make_rng(name), length)
        for name in ("dropout", "sample")
        if module.has_rng(name)
    }

    def apply_step(carry: Any, x_and_keys: Any) -> tuple[Any, Any]:
        x, keys = x_and_keys
        (carry, y), sown = unbound.apply(
            {"params": variables["params"]}, carry, x, rngs=keys, method=step, mutable="auxiliary"
        )
        return carry, (y, sown)

    time_first = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), xs)
    carry, results = scan(apply_step, carry, (time_first, keys), reverse)
    ys, sown = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), results)
    flat: Any = traverse_util.flatten_dict(sown.get("auxiliary", {}))
    for path, values in flat.items():
        module.sow("auxiliary", path[-1], values[0])
    return carry, ys


def hoist(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Return a function that computes the same as `function`, with less work in each call.

    Operations that depend only on values outside the function, such as casts of weights, are
    performed once, when `hoist` is called. The returned function accepts only arguments with the
    structure, shapes and dtypes of `arguments`. A jitted function inside `function` counts as one
    operation: whether hoisting a part of it, such as the broadcast of a bias, makes decoding faster
    has not been measured.
    """
    traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    before_all, _, body = _split(traced.jaxpr, len(traced.jaxpr.invars))
    (shared,) = _shared_values(before_all, traced.consts, body)
    expected = jax.tree.map(_shape, arguments)

    def call(*arguments: Any) -> Any:
        given = jax.tree.map(_shape, arguments)
        if given != expected:
            raise TypeError(f"a hoisted function expects arguments {expected}, not {given}")
        results = _call(body, [*shared, *jax.tree.leaves(arguments)])
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return call


def _split(jaxpr: core.Jaxpr, carries: int) -> tuple[core.Jaxpr, core.Jaxpr, core.Jaxpr]:
    """Split the jaxpr of a step into three jaxprs without constants.

    The first `carries` inputs of the step are its carry. The three jaxprs compute

    - the shared values, from the constants of the step;
    - the inputs of the loop body, from the shared values and the inputs of a time step;
    - the results of the step (the loop body), from the shared values, the carry and these inputs.
    """
    stages = dict.fromkeys(jaxpr.constvars, Stage.SHARED)
    stages |= dict.fromkeys(jaxpr.invars[:carries], Stage.CARRY)
    stages |= dict.fromkeys(jaxpr.invars[carries:], Stage.INPUT)
    equations: dict[Stage, list[core.JaxprEqn]] = {stage: [] for stage in Stage}
    for equation in jaxpr.eqns:
        stage = max((stages[x] for x in _variables(equation.invars)), default=Stage.CONSTANT)
        equations[stage].append(equation)
        stages |= dict.fromkeys(equation.outvars, stage)

    def used(stage: Stage, by: Stage) -> list[core.Var]:
        """Return the values of `stage` that stage `by` uses; CARRY also uses the step results."""
        operands = [x for equation in equations[by] for x in equation.invars]
        operands += jaxpr.outvars if by is Stage.CARRY else []
        return [x for x in _variables(operands) if stages[x] is stage]

    def part(stage: Stage, inputs: list[Any], outputs: list[Any]) -> core.Jaxpr:
        kept = equations[Stage.CONSTANT] + equations[stage]
        return jaxpr.replace(constvars=[], invars=inputs, outvars=outputs, eqns=kept)

    shared_by_inputs, shared_by_loop = (used(Stage.SHARED, s) for s in (Stage.INPUT, Stage.CARRY))
    inputs = used(Stage.INPUT, by=Stage.CARRY)
    return (
        part(Stage.SHARED, jaxpr.constvars, _variables(shared_by_inputs + shared_by_loop)),
        part(Stage.INPUT, shared_by_inputs + jaxpr.invars[carries:], inputs),
        part(Stage.CARRY, shared_by_loop + jaxpr.invars[:carries] + inputs, jaxpr.outvars),
    )


def _shared_values(
    before_all: core.Jaxpr, constants: Sequence[Any], *parts: core.Jaxpr
) -> list[list[Array]]:
    """Compute the shared values; return, for each part, those that it takes as inputs."""
    values = dict(zip(before_all.outvars, _call(before_all, constants), strict=True))
    return [[values[x] for x in part.invars if x in values] for part in parts]


def _variables(operands: list[Any]) -> list[core.Var]:
    """Return the distinct variables among the operands of equations, without literals."""
    return list(dict.fromkeys(x for x in operands if isinstance(x, core.Var)))


def _shape(x: Any) -> jax.ShapeDtypeStruct:
    """Return shape and dtype of an array or of a variable of a jaxpr."""
    return jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype)


def _call(jaxpr: core.Jaxpr, arguments: Sequence[Any]) -> list[Any]:
    return core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, ()))(*arguments)


def _loop(
    body: core.Jaxpr,
    shared: list[Array],
    carry: list[Array],
    inputs: list[Array],
    length: int,
    reverse: bool,
) -> list[Array]:
    """Run the loop; return the final carry and the outputs of all time steps.

    Each `Linear` operation has a slot: an additional input of zeros with shape [time, ...], which
    the operation ignores in the forward pass. In the backward pass, the gradient gₜ of the
    operation's result is the gradient of the slot, so the backward loop stores every gₜ.
    """
    linears = [_linear(equation, body.invars[: len(shared)]) for equation in body.eqns]

    def run(shared: list, carry: list, inputs: list, slots: list) -> tuple[list, list]:
        """Return the results of the loop, and every xₜ of the operations with a slot."""

        def step(carry: list, x: tuple[list, list]) -> tuple[list, tuple[list, list]]:
            return _step(body, linears, shared, carry, *x)

        carry, (outputs, stored) = jax.lax.scan(
            jax.checkpoint(step, prevent_cse=False, policy=is_stored) if recomputes() else step,
            carry,
            (inputs, slots),
            # Arrays imply the length, which export.py does not know as a number.
            length=None if inputs else length,
            reverse=reverse,
            unroll=unroll(),
        )
        return [*carry, *outputs], stored

    @jax.custom_vjp
    def loop(shared: list[Array], carry: list[Array], inputs: list[Array]) -> list[Array]:
        return run(shared, carry, inputs, slots=[None] * len(linears))[0]

    def forward(*arguments: list[Array]) -> tuple[list[Array], Any]:
        slots = [None if x is None else x.slot(length) for x in linears]
        results, vjp, stored = jax.vjp(run, *arguments, slots, has_aux=True)
        return results, (vjp, stored, arguments[0])

    def backward(residuals: Any, gradients: list[Any]) -> tuple[list[Any], ...]:
        vjp, stored, shared = residuals
        d_shared, d_carry, d_inputs, d_slots = vjp(gradients)
        for linear, xs, gs in zip(linears, stored, d_slots, strict=True):
            if linear is not None:
                i = body.invars.index(linear.W)
                d_shared[i] += linear.gradient(xs, gs, shared[i])
        return d_shared, d_carry, d_inputs

    loop.defvjp(forward, backward)
    return loop(shared, carry, inputs)


def _step(
    body: core.Jaxpr,
    linears: list["Linear | None"],
    shared: list[Array],
    carry: list[Array],
    inputs: list[Array],
    slots: list[Array | None],
) -> tuple[list[Array], tuple[list[Array], list[Array | None]]]:
    """Evaluate the loop body; return next carry, outputs and the xₜ of operations with a slot."""
    values = dict(zip(body.invars, [*shared, *carry, *inputs], strict=True))
    stored: list[Array | None] = [None] * len(slots)
    for i, (equation, linear, slot) in enumerate(zip(body.eqns, linears, slots, strict=True)):
        if linear is None or slot is None:
            operands = _variables(equation.invars)
            single = body.replace(invars=operands, outvars=equation.outvars, eqns=[equation])
            results = _call(single, [values[x] for x in operands])
        else:
            x, W = values[linear.x], jax.lax.stop_gradient(values[linear.W])
            results = [linear.perform(x, W, slot)]
            stored[i] = None if linear.is_bias else x
        values.update(zip(equation.outvars, results, strict=True))
    results = [x.val if isinstance(x, core.Literal) else values[x] for x in body.outvars]
    return results[: len(carry)], (results[len(carry) :], stored)


class Linear(NamedTuple):
    """Product of xₜ with a shared matrix W, or sum of xₜ and a shared bias W."""

    equation: core.JaxprEqn
    side: int  # index of W (0 or 1) among the two operands of the equation

    W = property(lambda self: self.equation.invars[self.side])
    x = property(lambda self: self.equation.invars[1 - self.side])
    is_bias = property(lambda self: self.equation.primitive is primitives.add_p)

    def slot(self, length: int) -> Array:
        """Return zeros with the shape [time, ...] of all gradients gₜ, in the dtype of xₜ."""
        return jnp.zeros((length, *_shape(self.equation.outvars[0]).shape), _shape(self.x).dtype)

    def perform(self, x: Array, W: Array, slot: Array) -> Array:
        """Return xₜ W or xₜ + W; pass the gradient of the result to xₜ and the slot, not to W."""

        def forward(x: Array, W: Array, slot: Array) -> tuple[Array, Array]:
            operands = (W, x) if self.side == 0 else (x, W)
            return self.equation.primitive.bind(*operands, **self.equation.params), W

        def backward(W: Array, g: Array) -> tuple[Array, None, Array]:
            g = g.astype(_shape(self.x).dtype)
            if self.is_bias:
                return g, None, g
            (d_x,) = jax.linear_transpose(lambda x: self._multiply(x, W), _shape(self.x))(g)
            return d_x, None, g

        operation = jax.custom_vjp(lambda *arguments: forward(*arguments)[0])
        operation.defvjp(forward, backward)
        return operation(x, W, slot)

    def gradient(self, xs: Array | None, gs: Array, W: Array) -> Array:
        """Compute the gradient of W from the xₜ and result gradients gₜ of all time steps."""
        if xs is None:
            # W is a bias. Sum all gₜ in float32: bfloat16 is not precise enough for long sums.
            summed = [0] + [1 + axis for axis, size in enumerate(W.shape) if size == 1]
            return jnp.sum(gs, summed, dtype=jnp.float32).reshape(W.shape).astype(W.dtype)
        multiply_all = jax.vmap(self._multiply, in_axes=(0, None))
        return jax.linear_transpose(lambda W: multiply_all(xs, W), W)(gs)[0]

    def _multiply(self, x: Array, W: Array) -> Array:
        params = self.equation.params
        operands = (W, x) if self.side == 0 else (x, W)
        return jax.lax.dot_general(*operands, params["dimension_numbers"], params["precision"])


def _linear(equation: core.JaxprEqn, shared: list[core.Var]) -> Linear | None:
    """Return the equation as a `Linear` operation; None if it is not linear or needs no slot."""
    sides = [side for side, x in enumerate(equation.invars) if x in shared]
    if equation.primitive not in (primitives.dot_general_p, primitives.add_p) or len(sides) != 1:
        return None
    linear = Linear(equation, sides[0])
    x, W, y = (_shape(v) for v in (linear.x, linear.W, *equation.outvars))
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return None  # integer operands have no gradients, so they need no slot
    if linear.is_bias and not W.size < x.size == y.size:
        # A bias is smaller than xₜ. For any other summand W, storing every gₜ (the gradient of the
        # loss with respect to xₜ + W) would need more memory than accumulating dW in the loop.
        return None
    return linear
