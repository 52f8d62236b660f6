"""Dropout: its random numbers and its rate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32

from models.dropout import Dropout, random_bits, threefry

KEY = jax.random.key(3)


def dropped(x, rate=0.5, key=KEY, deterministic=False):
    return Dropout(rate).apply({}, x, deterministic=deterministic, rngs={"dropout": key})


def test_threefry_returns_the_same_as_that_of_jax():
    counters = jax.random.bits(jax.random.key(0), (2, 5))
    data = jax.random.key_data(KEY)
    expected = threefry_2x32(data, counters.ravel()).reshape(2, 5)
    np.testing.assert_array_equal(jnp.stack(threefry(data, *counters)), expected)


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.9, 0.99999999])
def test_elements_are_dropped_at_the_rate_and_the_others_are_scaled(rate):
    y = dropped(jnp.full((64, 32, 30), 2.0), rate)
    rounded = min(round(rate * 2**16), 2**16 - 1) / 2**16
    np.testing.assert_allclose(y[y != 0], 2 / (1 - rounded), rtol=1e-6)
    # Five standard deviations of a binomial distribution.
    assert abs((y == 0).mean() - rounded) < 5 * np.sqrt(rounded * (1 - rounded) / y.size)


def test_random_bits_are_uniform_and_independent_of_neighbours_and_keys():
    bits = np.asarray(random_bits(KEY, (50, 20, 64))) / 2**16
    assert abs(bits.mean() - 0.5) < 5 / np.sqrt(12 * bits.size)
    other = np.asarray(random_bits(jax.random.key(4), (50, 20, 64))) / 2**16
    shifted = [bits[1:], bits[:, 1:], bits[..., 1:], bits[..., 4:], bits[..., 32:], other]
    for values in shifted:
        original = bits[: len(values), : values.shape[1], : values.shape[2]]
        correlation = np.corrcoef(original.ravel(), values.ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(values.size)
    assert len(np.unique(bits.reshape(1000, 64), axis=0)) == 1000  # no row is repeated


def test_evaluation_and_a_rate_of_zero_change_nothing():
    x = jnp.ones((2, 3))
    np.testing.assert_array_equal(dropped(x, deterministic=True), x)
    np.testing.assert_array_equal(dropped(x, rate=0.0), x)


def test_gradients_are_dropped_like_the_elements():
    x = jnp.ones((4, 10))
    np.testing.assert_array_equal(jax.grad(lambda x: dropped(x).sum())(x), dropped(x))


def test_every_time_step_of_a_mapped_key_has_its_own_mask():
    keys = jax.random.split(KEY, 3)
    masks = jax.vmap(lambda key: dropped(jnp.ones((4, 6)), key=key))(keys)
    np.testing.assert_array_equal(masks[1], dropped(jnp.ones((4, 6)), key=keys[1]))
    assert (masks[0] != masks[1]).any()
