"""Parameter initializers, by the names that configs use."""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer


class Initializers(NamedTuple):
    """One initializer per kind of parameter; most papers use one initializer for all kinds."""

    kernel: Initializer  # initializes input and output matrices
    recurrent: Initializer  # initializes matrices that multiply the hidden state
    score: Initializer  # initializes matrices of attention scores
    v: Initializer  # initializes the vector v_a of the concat score


def _uniform(scale: float) -> Initializers:
    """Initialize with U(−scale, scale); scale is .1 in Luong 2015 and .08 in Sutskever 2014."""

    def init(key, shape, dtype=None, out_sharding=None):
        return jax.random.uniform(key, shape, dtype, -scale, scale)

    return Initializers(init, init, init, init)


def _normal(scale: float) -> Initializers:
    return Initializers(*[nn.initializers.normal(scale)] * 4)


def _xavier(scale: float) -> Initializers:
    return Initializers(*[nn.initializers.variance_scaling(scale, "fan_avg", "uniform")] * 4)


def _bahdanau(scale: float) -> Initializers:
    """Return the initializers of Bahdanau 2015 B.1 (with scale 1).

    They are N(0, .01²) for kernels, orthogonal for recurrent matrices, N(0, .001²) for the matrices
    of the score, and zeros for v_a. `scale` multiplies the standard deviations.
    """
    normal = nn.initializers.normal
    return Initializers(
        normal(0.01 * scale), nn.initializers.orthogonal(), normal(0.001 * scale),
        nn.initializers.zeros,
    )  # fmt: skip


INITIALIZERS: dict[str, Callable[[float], Initializers]] = {
    "uniform": _uniform,
    "normal": _normal,
    "xavier": _xavier,
    "bahdanau": _bahdanau,
}

XAVIER = _xavier(1.0)


def make_initializers(name: str, scale: float) -> Initializers:
    """Return the initializers that `config.model.init` selects, with the given scale."""
    return INITIALIZERS[name](scale)


def in_blocks(init: Initializer, blocks: int) -> Initializer:
    """Initialize equal blocks of a matrix's columns (one per gate) independently of each other."""

    def blockwise(key, shape, dtype=None, out_sharding=None):
        block = (shape[0], shape[1] // blocks)
        keys = jax.random.split(key, blocks)
        return jnp.concatenate([init(k, block, dtype) for k in keys], axis=1)

    return blockwise


def with_zeros(init: Initializer, rows: slice) -> Initializer:
    """Initialize the given rows of a matrix with zeros, the others with `init` (Mino 2017)."""

    def partly_zero(key, shape, dtype=None, out_sharding=None):
        return init(key, shape, dtype).at[rows].set(0)

    return partly_zero
