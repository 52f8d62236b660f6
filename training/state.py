"""All that training carries from step to step, and where its randomness comes from."""

import zlib
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import Array

Params = Any


@struct.dataclass
class TrainState:
    step: Array  # batches seen, skipped ones included
    params: Params
    opt_state: optax.OptState
    ema: Params | None  # averaged parameters, where asked for
    averages: dict[str, Array]  # moving averages of means that a task's loss compares itself with
    rate_scale: Array  # factor of the learning rate that the plateau schedule lowers
    skipped: Array  # non-finite steps so far,
    skipped_in_row: Array  # since the last good one,
    longest_skipped: Array  # and the longest such row

    @property
    def eval_params(self) -> Params:
        return self.params if self.ema is None else self.ema


def create_state(
    params: Params,
    optimizer: optax.GradientTransformation,
    ema: bool,
    averages: tuple[str, ...] = (),
) -> TrainState:
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        ema=jax.tree.map(jnp.copy, params) if ema else None,
        averages={name: jnp.zeros(()) for name in averages},
        rate_scale=jnp.ones(()),
        skipped=jnp.zeros((), jnp.int32),
        skipped_in_row=jnp.zeros((), jnp.int32),
        longest_skipped=jnp.zeros((), jnp.int32),
    )


def purpose_key(seed: int, purpose: str) -> Array:
    """A random key for one purpose; folding the step in makes it (seed, purpose, step)."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(purpose.encode()) & 0x7FFFFFFF)
