"""Dropout (Srivastava 2014) with masks that cost little time.

`flax.linen.Dropout` computes one block of Threefry per element, and on CPUs, JAX runs the rounds of
Threefry in a loop over whole arrays (docs/performance_decisions.md#dropout-masks).
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key, UInt16, UInt32

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
VALUES = 4  # number of 16-bit values in a block of Threefry


class Dropout(nn.Module):
    """Set elements to zero with probability p, and divide the others by 1 − p.

    p is `rate`, rounded to a multiple of 2⁻¹⁶.
    """

    rate: float

    @nn.compact
    def __call__(self, x: Float[Array, "*s"], deterministic: bool) -> Float[Array, "*s"]:
        if deterministic or not self.rate:
            return x
        limit = min(round(self.rate * 2**16), 2**16 - 1)
        dropped = random_bits(self.make_rng("dropout"), x.shape) < limit
        return jnp.where(dropped, jnp.zeros_like(x), x / (1 - limit / 2**16))


def random_bits(key: Key[Array, ""], shape: tuple[int, ...]) -> UInt16[Array, "..."]:
    """Return an array with 16 random bits per element.

    A block of Threefry encrypts the row and the column of the block in an array with a quarter of
    the columns, so the bits of a row do not depend on the device that computes it.
    """
    *leading, width = shape
    blocks = (*leading, -(-width // VALUES))
    row = jnp.zeros(blocks, jnp.uint32)
    for axis, size in enumerate(leading):
        row = row * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, blocks, axis)
    column = jax.lax.broadcasted_iota(jnp.uint32, blocks, len(leading))
    words = threefry(jax.random.key_data(key), row, column)
    # Without the barrier, XLA would compute each block once per value instead of storing it.
    words = jax.lax.optimization_barrier(jnp.concatenate(words, axis=-1))
    bits = jax.lax.bitcast_convert_type(words, jnp.uint16)
    return bits.reshape(*leading, -1)[..., :width]


def threefry(
    key: UInt32[Array, "2"], x: UInt32[Array, "*s"], y: UInt32[Array, "*s"]
) -> tuple[UInt32[Array, "*s"], UInt32[Array, "*s"]]:
    """Encrypt the blocks (x, y) with Threefry-2x32 (Salmon 2011, with 20 rounds).

    The results are those of `jax.extend.random.threefry_2x32`.
    """
    keys = key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA)
    x, y = x + keys[0], y + keys[1]
    for i in range(5):
        for bits in ROTATIONS[i % 2]:
            x = x + y
            y = x ^ (y << bits | y >> (32 - bits))
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + jnp.uint32(i + 1)
    return x, y
