"""Digests that detect whether a restored checkpoint differs from the saved one."""

import hashlib
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Shaped, UInt32


def seal(record: dict[str, Any]) -> str:
    """Return a digest of the content of a JSON record."""
    return _digest(json.dumps(record, sort_keys=True))


def structure(tree: Any) -> str:
    """Return a digest of the paths, shapes and dtypes of all arrays in a pytree."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    named = [(jax.tree_util.keystr(path), x.shape, str(x.dtype)) for path, x in leaves]
    return _digest(repr(named))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def checksum(tree: Any) -> int:
    """Hash every array element with its position; return the sum of the hashes modulo 2³².

    Integer addition is associative, so the result does not depend on how arrays are sharded. Arrays
    of the same shape share a compiled program, so that large trees compile quickly.
    """
    hashes = [_hash(x, np.uint32(i)) for i, x in enumerate(jax.tree.leaves(tree))]
    return sum(map(int, hashes)) % 2**32


@jax.jit
def _hash(x: Shaped[Array, "*n"], number: UInt32[Array, ""]) -> UInt32[Array, ""]:
    """Return the sum of the hashes of the elements of array `number` modulo 2³²."""
    bits = jax.lax.bitcast_convert_type(x, jnp.dtype(f"uint{8 * x.dtype.itemsize}"))
    positions = jnp.arange(x.size, dtype=jnp.uint32).reshape(x.shape)
    return jnp.sum(_mix(bits.astype(jnp.uint32) ^ _mix(positions + _mix(number))))


def _mix(x: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    """Hash integers bijectively: each input bit changes about half of the output bits."""
    for _ in range(2):
        # Multiplication by an odd number is invertible modulo 2³², so different x stay different.
        x = (x ^ (x >> 15)) * jnp.uint32(0x9E3779B1)
    return x ^ (x >> 16)
