"""Counting floating-point operations, and the peak rates of devices."""

import math
import types

import jax
import jax.numpy as jnp
import pytest

from training.flops import count_flops, peak_rate


def test_flops_are_counted_in_every_loop_iteration():
    def loop(x, w):
        return jax.lax.scan(lambda h, _: (h @ w, None), x, length=5)[0]

    x, w = jnp.ones((3, 4)), jnp.ones((4, 4))
    assert count_flops(jax.make_jaxpr(loop)(x, w).jaxpr) == 5 * 2 * 3 * 4 * 4
    # The gradient takes three times the FLOPs: each iteration has one matrix product in the
    # forward pass and two in the backward pass.
    gradient = jax.grad(lambda x, w: loop(x, w).sum(), argnums=(0, 1))
    assert count_flops(jax.make_jaxpr(gradient)(x, w).jaxpr) == 3 * 5 * 2 * 3 * 4 * 4


@pytest.mark.parametrize(
    ("kind", "peak"), [("NVIDIA H200", 989e12), ("TPU v5 lite", 197e12), ("TPU v5p", 459e12)]
)
def test_peak_rates_are_found_by_the_name_of_the_device(kind, peak):
    assert peak_rate(types.SimpleNamespace(device_kind=kind)) == peak


@pytest.mark.parametrize("kind", ["cpu", "NVIDIA L40", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"])
def test_the_peak_rate_of_an_unknown_device_is_nan(kind):
    assert math.isnan(peak_rate(types.SimpleNamespace(device_kind=kind)))
