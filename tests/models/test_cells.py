import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.cells import CELLS
from models.recurrent import Stack, run
from tests import reference


def random_params(init, *arguments, scale=0.5):
    """Draw parameters that are large enough for the gates' sigmoid to leave its linear range."""
    shapes = jax.eval_shape(init, jax.random.key(0), *arguments)["params"]
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda s: jnp.array(rng.normal(0, scale, s.shape), s.dtype), shapes)


@pytest.mark.parametrize("name", CELLS)
def test_cell_equals_its_equations(name):
    cell = CELLS[name](5)
    x = jnp.array(np.random.default_rng(1).normal(size=(2, 7, 3)), jnp.float32)
    mask = jnp.ones((2, 7), bool)

    def outputs(cell, x):
        return run(cell, x, mask, cell.start(2))

    def init(key, x):
        return cell.init(key, x, method=outputs)

    params = random_params(init, x)
    ys, carry = cell.apply({"params": params}, x, method=outputs)
    for row in range(2):
        expected, final = reference.run(name, reference.as_float64(params), np.float64(x[row]))
        np.testing.assert_allclose(ys[row], expected, atol=2e-6)
        for ours, theirs in zip(carry, final, strict=True):
            np.testing.assert_allclose(ours[row], theirs, atol=2e-6)


def test_gru_reset_after_equals_the_gru_of_flax():
    """In Flax, z = 1 keeps the old state, so the parameters of z have opposite signs there."""
    flax_cell, cell = nn.GRUCell(5), CELLS["gru_reset_after"](5)
    rng = np.random.default_rng(5)
    x, h = (jnp.array(rng.normal(size=(2, n)), jnp.float32) for n in (3, 5))
    w = random_params(flax_cell.init, h, x)
    w["hn"]["bias"] = jnp.zeros(5)  # a second bias, which our cell does not have
    params = {
        name: jnp.concatenate([-w[f"{prefix}z"][leaf], *(w[prefix + g][leaf] for g in "rn")], -1)
        for name, prefix, leaf in (("W", "i", "kernel"), ("U", "h", "kernel"), ("b", "i", "bias"))
    }
    (ours,) = cell.apply({"params": params}, (h,), x, None, method="step")
    expected, _ = flax_cell.apply({"params": w}, h, x)
    np.testing.assert_allclose(ours, expected, atol=1e-6)


# Stacks run all types of cells in the same way, so the fast tests run only one stack of the second
# GRU.
SHAPES = ("forward", "reverse", "bidirectional", "residual")
_STACKS = [
    pytest.param(
        cell, shape, marks=[pytest.mark.slow] * (cell == "gru_reset_after" and shape != SHAPES[2])
    )
    for shape in SHAPES
    for cell in CELLS
]


@pytest.mark.parametrize(("cell", "shape"), _STACKS)
def test_stack_of_a_padded_batch_equals_its_equations(cell, shape):
    options = {} if shape == "forward" else {shape: True}
    stack = Stack(cell, features=4, layers=2, **options)
    rng = np.random.default_rng(2)
    x, lengths = jnp.array(rng.normal(size=(3, 6, 4)), jnp.float32), [6, 3, 1]
    mask = jnp.array(np.arange(6) < np.array(lengths)[:, None])
    params = random_params(stack.init, x, mask)
    ys, carries = jax.jit(stack.apply)({"params": params}, x, mask)
    for row, length in enumerate(lengths):
        sentence = np.float64(x[row, :length])
        weights = reference.as_float64(params)
        expected, finals = reference.stack(cell, weights, sentence, 2, **options)
        np.testing.assert_allclose(ys[row, :length], expected, atol=5e-6)
        np.testing.assert_array_equal(ys[row, length:], 0)
        for layer in range(2):
            for ours, theirs in zip(carries[layer], finals[layer], strict=True):
                np.testing.assert_allclose(ours[row], theirs, atol=5e-6)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_initialization_and_application_compute_the_same_outputs(bidirectional):
    stack = Stack("lstm", features=4, layers=2, bidirectional=bidirectional)
    x = jnp.array(np.random.default_rng(4).normal(size=(2, 5, 3)), jnp.float32)
    mask = jnp.arange(5)[None] < jnp.array([5, 3])[:, None]
    outputs, variables = stack.init_with_output(jax.random.key(0), x, mask)
    expected = stack.apply(variables, x, mask)
    jax.tree.map(np.testing.assert_array_equal, outputs, expected)
    # Initial parameters must not depend on the sequence length of the batch used for `init`.
    short = stack.init(jax.random.key(0), x[:, :1], mask[:, :1])
    jax.tree.map(np.testing.assert_array_equal, variables, short)


@pytest.mark.parametrize("cell", CELLS)
def test_single_time_steps_equal_a_run_over_the_sequence(cell):
    stack = Stack(cell, features=4, layers=2, residual=True)
    x = jnp.array(np.random.default_rng(3).normal(size=(2, 5, 4)), jnp.float32)
    mask = jnp.ones((2, 5), bool)
    params = {"params": random_params(stack.init, x, mask)}
    whole, finals = stack.apply(params, x, mask)
    step = jax.jit(lambda carries, x: stack.apply(params, carries, x, method="step"))
    carries = stack.apply(params, 2, method="start")
    for t in range(5):
        y, carries = step(carries, x[:, t])
        np.testing.assert_allclose(y, whole[:, t], atol=1e-6)
    np.testing.assert_allclose(carries[1][-1], finals[1][-1], atol=1e-6)
