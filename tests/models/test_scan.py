"""Compare models/scan.py with jax.lax.scan: equal results and gradients, less work in the loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.base import base_config
from models import scan as scanning
from models.cells import LSTM
from models.scan import hoist, scan
from models.seq2seq import make_seq2seq
from tests.models.test_cells import random_params

TIME_STEPS, ROWS, WIDTH, POSITIONS = 6, 3, 4, 5


def plain(step, carry, xs, reverse=False):
    return jax.lax.scan(step, carry, xs, reverse=reverse)


def random_array(*shape, seed=0):
    return jnp.array(np.random.default_rng(seed).normal(size=shape), jnp.float32)


ARGUMENTS = {
    "W": random_array(WIDTH, WIDTH),
    "U": random_array(2 * WIDTH, WIDTH, seed=1),
    "b": random_array(WIDTH, seed=2),
    "keys": random_array(ROWS, POSITIONS, WIDTH, seed=3),
    "h": random_array(ROWS, WIDTH, seed=4),
    "xs": random_array(TIME_STEPS, ROWS, WIDTH, seed=5),
}


def scan_all_operations(scan, reverse, W, U, b, keys, h, xs):
    """Scan a step with every kind of operation.

    The step contains random numbers, products whose left or right operand is the same at all time
    steps, a weight matrix W that is used twice, a bias b, a summand (keys) that is the same at all
    time steps but too large to be a bias, a counter t, and outputs from every stage of the step.
    """

    def step(carry, inputs):
        h, t = carry
        x, key = inputs
        x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0)
        logits = jnp.einsum("bsd,bd->bs", keys, h @ W, preferred_element_type=jnp.float32)
        weights = jax.nn.softmax(logits)
        context = jnp.einsum("bs,bsd->bd", weights, keys)
        recurrent = jnp.concatenate([context, h], axis=-1) @ U + b[None]
        h = jnp.tanh(x @ W + recurrent + jnp.tanh(keys + h[:, None]).sum(axis=1))
        return (h, t + 1), (h * t, weights, x, jnp.ones(2), W[0])

    noise = jax.random.split(jax.random.key(0), TIME_STEPS)
    carry, outputs = scan(step, (h, jnp.zeros((), int)), (xs, noise), reverse)
    return carry, outputs


@pytest.mark.parametrize("recomputes", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_results_and_gradients_equal_those_of_jaxs_scan(reverse, recomputes, monkeypatch):
    monkeypatch.setattr(scanning, "recomputes", lambda: recomputes)
    ours, theirs = (scan_all_operations(s, reverse, **ARGUMENTS) for s in (scan, plain))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), ours, theirs)

    def gradients(scan):
        def loss(arguments):
            (h, _), (y, weights, x, _, row) = scan_all_operations(scan, reverse, **arguments)
            return h.sum() + (y**2).sum() + (weights**3).sum() + (x * y).sum() + row.sum()

        return jax.jit(jax.grad(loss))(ARGUMENTS)

    ours, theirs = gradients(scan), gradients(plain)
    for name, expected in theirs.items():
        np.testing.assert_allclose(ours[name], expected, rtol=2e-5, atol=1e-5, err_msg=name)


def test_shared_integers_and_sums_that_broadcast_both_operands():
    """models/scan.py treats neither summand as a bias; gradients equal those of jax.lax.scan."""
    number, spread = jnp.array([2, 3]), random_array(1, 2, WIDTH)

    def loss(scan, h):
        def step(carry, x):
            h, t = carry
            h = jnp.tanh((h[:, None] + spread).sum(axis=1) + x) * t.sum()
            return (h, t + number - 1), None

        return scan(step, (h, jnp.zeros(2, int) + 1), ARGUMENTS["xs"])[0][0].sum()

    ours, theirs = (jax.grad(lambda h, s=s: loss(s, h))(ARGUMENTS["h"]) for s in (scan, plain))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_bias_gradients_are_summed_in_float32():
    """The gradients of two biases, inside and before the loop, are sums of 3,200 ones.

    A sum in bfloat16 would stop at 256.
    """
    ones = jnp.ones((50, 64, 8), jnp.bfloat16)

    def loss(bias):
        step = lambda h, x: (x, h + bias.astype(h.dtype))  # noqa: E731
        return scan(step, ones[0], ones)[1].astype(jnp.float32).sum()

    np.testing.assert_array_equal(jax.grad(loss)(jnp.zeros((1, 8))), 3200)
    cell = LSTM(8, dtype=jnp.bfloat16)
    variables = cell.init(jax.random.key(0), cell.start(64), ones[0], None, method="step")

    def loss_before_loop(params):
        total, _, _ = cell.apply(
            {"params": params}, ones.reshape(-1, 8), None, method="project_input"
        )
        return total.astype(jnp.float32).sum()

    np.testing.assert_array_equal(jax.grad(loss_before_loop)(variables["params"])["b"], 3200)


def test_a_step_that_changes_the_structure_of_the_carry_is_rejected():
    with pytest.raises(TypeError, match=r"carry PyTreeDef\(\*\).*carry PyTreeDef\(\(\*, \*\)\)"):
        scan(lambda h, x: ((h, h), x), ARGUMENTS["h"], ARGUMENTS["xs"])


def loop_equations(jaxpr, in_loop=False):
    """Yield the equations inside the loops of a jaxpr, including those of called functions."""
    for equation in jaxpr.eqns:
        if in_loop:
            yield equation
        for called in jax.extend.core.jaxprs_in_params(equation.params):
            yield from loop_equations(called, in_loop or equation.primitive.name == "scan")


@pytest.mark.parametrize("recomputes", [False, True])
def test_loops_contain_no_operations_that_can_be_hoisted(recomputes, monkeypatch):
    monkeypatch.setattr(scanning, "recomputes", lambda: recomputes)

    def loss(scan, arguments):
        (h, _), outputs = scan_all_operations(scan, False, **arguments)
        return h.sum() + (outputs[0] ** 2).sum()

    def loops(scan):
        gradient = jax.make_jaxpr(jax.grad(lambda a: loss(scan, a)))(ARGUMENTS)
        return list(loop_equations(gradient.jaxpr))

    def count(equations, name):
        return sum(equation.primitive.name == name for equation in equations)

    ours, theirs = loops(scan), loops(plain)
    # Forward: the products with W, keys (scores), keys (context) and U. Backward: one per product,
    # for the gradient of its left operand; gradients of weights are computed after the loop. No
    # product is recomputed.
    assert count(ours, "dot_general") == 8 and count(theirs, "dot_general") > 12
    assert count(ours, "random_bits") == 0 and count(theirs, "random_bits") == 1
    sums = [e.outvars[0].aval.shape for e in ours if e.primitive.name == "add_any"]
    assert (WIDTH, WIDTH) not in sums and (2 * WIDTH, WIDTH) not in sums


def test_backward_loops_recompute_elementwise_operations(monkeypatch):
    """The forward loop stores h and the product h U, but not the gates that depend on it."""
    U = random_array(WIDTH, 2 * WIDTH)

    def step(h, x):
        a, b = jnp.split(h @ U, 2, axis=-1)
        return jax.nn.sigmoid(a) * jnp.tanh(b) + x, None

    def stored(recomputes):
        monkeypatch.setattr(scanning, "recomputes", lambda: recomputes)
        loss = lambda h: scan(step, h, ARGUMENTS["xs"])[0].sum()  # noqa: E731
        jaxpr = jax.make_jaxpr(jax.grad(loss))(ARGUMENTS["h"])
        forward = next(e for e in jaxpr.eqns if e.primitive.name == "scan")
        return sorted(x.aval.shape[2] for x in forward.outvars[forward.params["num_carry"] :])

    assert stored(True) == [WIDTH, 2 * WIDTH]
    assert len(stored(False)) > 4


def test_scan_under_vmap():
    def run(scan, h):
        step = lambda h, x: (jnp.tanh(h @ ARGUMENTS["W"] + x), h)  # noqa: E731
        return scan(step, h, ARGUMENTS["xs"])[0].sum()

    h = random_array(2, ROWS, WIDTH)
    ours, theirs = (jax.vmap(jax.grad(lambda h, s=s: run(s, h)))(h) for s in (scan, plain))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_hoisted_function_does_not_repeat_operations_on_weights():
    W, U, keys = (ARGUMENTS[name] for name in ("W", "U", "keys"))

    def step(state, x):
        weights = jnp.concatenate([W, U]).astype(jnp.bfloat16)
        h = jnp.concatenate([x, state["h"], x], axis=-1) @ weights
        return {"h": h.astype(jnp.float32), "t": state["t"] + 1}, jnp.tanh(keys).sum(), jnp.ones(2)

    arguments = {"h": ARGUMENTS["h"], "t": jnp.zeros((), int)}, ARGUMENTS["xs"][0]
    hoisted = hoist(step, *arguments)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, hoisted(*arguments), step(*arguments)))
    other = jax.tree.map(lambda x: x + 1, arguments)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, hoisted(*other), step(*other)))
    names = [e.primitive.name for e in jax.make_jaxpr(hoisted)(*arguments).eqns]
    assert names.count("concatenate") == 1 and "tanh" not in names and "dot_general" in names


@pytest.mark.parametrize(
    "arguments", [(), (jnp.ones(3),), (jnp.ones(2, int),), ({"x": jnp.ones(2)},)], ids=str
)
def test_a_hoisted_function_accepts_only_arguments_of_the_same_structure_and_shapes(arguments):
    hoisted = hoist(lambda x: 2 * x, jnp.ones(2))
    assert hoisted(jnp.zeros(2)).tolist() == [0, 0]
    with pytest.raises(TypeError, match="a hoisted function expects arguments"):
        hoisted(*arguments)


MODELS = {
    "lstm, input feeding": {
        "decoder.residual": True, "encoder.residual": True, "encoder.layers": 2,
        "decoder.layers": 2,
    },
    "gru, bahdanau": {
        "decoder.type": "bahdanau", "attention.score": "concat", "encoder.cell": "gru",
        "decoder.cell": "gru", "encoder.bidirectional": True, "encoder.features": 2,
    },
    "elman, local_p": {
        "encoder.cell": "elman", "decoder.cell": "elman", "attention.align": "local_p",
        "attention.D": 1, "attention.score": "dot",
    },
    "hard": {"attention.align": "hard", "attention.score": "location", "attention.max_source": 8},
}  # fmt: skip
SLOW = (
    "elman, local_p",
    "hard",
    "gru, bahdanau",
)  # slow tests only: their loops resemble the first model's


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in MODELS]
)
def test_gradients_of_models_equal_those_of_jaxs_scan(name, monkeypatch):
    """The models use dropout and float32, and their batches contain padding."""
    config = base_config().model
    for stack in (config.encoder, config.decoder):
        stack.update({"layers": 1, "features": 4, "embedding": 3})
    config.update({"dropout": 0.3})
    config.decoder.maxout = 4
    config.update_from_flattened_dict(MODELS[name])
    model = make_seq2seq(config, 10, 10, reverse_source=False)
    rng = np.random.default_rng(0)
    source, target = (jnp.array(rng.integers(4, 10, (3, length))) for length in (5, 4))
    source = source.at[1, 3:].set(0).at[2, 1:].set(0)
    params = random_params(model.init, source, source != 0, target)

    def loss(params):
        def forward(model):
            memory = model.encode(source, source != 0, False)
            return model.decode(memory, target, False, attention=True)

        rngs = {"dropout": jax.random.key(1), "sample": jax.random.key(2)}
        (features, weights), sown = model.apply(
            {"params": params}, method=forward, rngs=rngs, mutable="auxiliary"
        )
        terms = [jnp.sum(x**2) for x in jax.tree.leaves((features, weights, sown))]
        return sum(terms)

    ours = jax.jit(jax.grad(loss))(params)
    monkeypatch.setattr(scanning, "scan", plain)
    theirs = jax.jit(jax.grad(lambda params: loss(params)))(params)

    def distance(x, y):
        return np.linalg.norm(np.subtract(x, y)) / (np.linalg.norm(y) or 1)

    def concatenated(gradients):
        return np.concatenate([np.ravel(x) for x in jax.tree.leaves(gradients)])

    assert distance(concatenated(ours), concatenated(theirs)) < 1e-6
    # Small gradients of attention scores are differences of large numbers, so their relative error
    # is larger: 3e-5 for Bahdanau's model under jax 0.12, less than 1e-5 under earlier versions.
    assert max(jax.tree.leaves(jax.tree.map(distance, ours, theirs))) < 1e-4
