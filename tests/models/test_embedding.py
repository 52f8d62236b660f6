import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from models.embedding import SMALL_VOCABULARY, Embed

TOKENS = jnp.array([[3, 0, 3, 5], [0, 0, 1, 3]])  # token 3 occurs three times; 2 and 4 never


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_small_vocabulary_equals_flax_embed(monkeypatch, dtype):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    params = {"params": {"embedding": jax.random.normal(jax.random.key(0), (6, 8))}}
    weights = jax.random.normal(jax.random.key(1), (*TOKENS.shape, 8))

    def rows_and_gradient(embed):
        def loss(params):
            rows = embed.apply(params, TOKENS)
            return (rows * weights).sum(), rows

        (_, rows), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
        return rows, gradient["params"]["embedding"]

    rows, gradient = rows_and_gradient(Embed(6, 8, dtype=jnp.dtype(dtype)))
    expected_rows, expected = rows_and_gradient(nn.Embed(6, 8, dtype=jnp.dtype(dtype)))
    assert rows.dtype == dtype
    np.testing.assert_array_equal(rows, expected_rows)
    # The bfloat16 tolerance is large because nn.Embed, the reference, sums gradients in bfloat16.
    tolerance = {"float32": 1e-6, "bfloat16": 0.05}[dtype]
    np.testing.assert_allclose(gradient, expected, atol=tolerance)
    assert not gradient[2].any() and not gradient[4].any()


@pytest.mark.parametrize(
    "size, backend",
    [(SMALL_VOCABULARY, "gpu"), (SMALL_VOCABULARY + 1, "gpu"), (SMALL_VOCABULARY, "cpu")],
)
def test_gradient_of_a_frequent_token_is_summed_in_float32(monkeypatch, size, backend):
    """The gradient is a sum of 5,120 values of .01; in bfloat16 the sum would stop near 4."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    params = {"params": {"embedding": jnp.zeros((size, 2))}}
    embed = Embed(size, 2, dtype=jnp.bfloat16)

    def loss(params):
        return 0.01 * embed.apply(params, jnp.zeros(5120, int)).astype(jnp.float32).sum()

    gradient = jax.jit(jax.grad(loss))(params)["params"]["embedding"]
    # The tolerance allows for rounding .01 to bfloat16.
    np.testing.assert_allclose(gradient[0], 51.2, rtol=0.005)


@pytest.mark.parametrize(
    "size, backend",
    [(SMALL_VOCABULARY, "gpu"), (SMALL_VOCABULARY + 1, "gpu"), (SMALL_VOCABULARY, "cpu")],
)
def test_the_gradient_is_a_product_for_small_vocabularies_on_gpus_only(monkeypatch, size, backend):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    params = {"params": {"embedding": jnp.zeros((size, 8))}}
    program = str(jax.make_jaxpr(jax.grad(lambda p: Embed(size, 8).apply(p, TOKENS).sum()))(params))
    uses_product = size == SMALL_VOCABULARY and backend == "gpu"
    assert ("dot_general" in program, "scatter" in program) == (uses_product, not uses_product)
