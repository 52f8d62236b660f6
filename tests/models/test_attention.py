import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.attention import SCORES, Global, masked_softmax
from tests import reference
from tests.models.test_cells import random_params

OWN = {"concat": {"features": 6}, "location": {"max_source": 7}}


@pytest.mark.parametrize("name", SCORES)
def test_global_attention_equals_its_equations(name):
    attention = Global(SCORES[name](**OWN.get(name, {})))
    rng = np.random.default_rng(0)
    width = 4 if name == "dot" else 5
    query = rng.normal(size=(2, 3, 4)).astype(np.float32)
    memory = rng.normal(size=(2, 7, width)).astype(np.float32)
    lengths = [7, 4]
    mask = np.arange(7) < np.array(lengths)[:, None]

    def attend(module, query, memory):
        return module(query, module.keys(memory), memory, mask)

    def init(key, *arguments):
        return {"params": {}, **attention.init(key, *arguments, method=attend)}

    params = random_params(init, query, memory)
    context, weights = attention.apply({"params": params}, query, memory, method=attend)
    scored = reference.as_float64(params).get("score", {})
    for row, length in enumerate(lengths):
        states = memory[row, :length].astype(float)
        for t in range(3):
            ratings = reference.score(name, scored, query[row, t].astype(float), states)
            a = reference.softmax(ratings)
            np.testing.assert_allclose(weights[row, t, :length], a, atol=1e-6)
            np.testing.assert_array_equal(weights[row, t, length:], 0)
            np.testing.assert_allclose(context[row, t], a @ states, atol=2e-6)


def test_location_cannot_rate_what_lies_beyond_its_largest_source():
    attention = Global(SCORES["location"](max_source=3))
    query, memory = jnp.ones((1, 2, 4)), jnp.ones((1, 5, 4))
    mask = jnp.ones((1, 5), bool)
    (_, weights), _ = attention.init_with_output(jax.random.key(0), query, memory, memory, mask)
    np.testing.assert_array_equal(weights[..., 3:], 0)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)


def test_masked_softmax_of_nothing_is_zero_and_has_finite_gradients():
    mask = jnp.array([[[True, False, True]], [[False, False, False]]])
    ratings = jnp.array([[[1.0, jnp.inf, -2.0]], [[3.0, 1.0, 0.0]]])
    weights, gradient = jax.value_and_grad(
        lambda x: (masked_softmax(x, mask) ** 2).sum(), argnums=0
    )(ratings)
    p = reference.softmax(np.array([1.0, -2.0]))
    np.testing.assert_allclose(weights, (p**2).sum(), rtol=1e-6)
    assert jnp.isfinite(gradient).all()
