"""The train state, the progress record saved with it, and the random keys of a run."""

import math
import zlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import Array
from jaxtyping import Float, Int, Key

from tasks.task import Params


@struct.dataclass
class TrainState:
    """The arrays that one training step passes to the next."""

    step: Int[Array, ""]  # training steps so far, including skipped ones
    params: Params
    opt_state: optax.OptState
    ema: Params | None  # exponential moving average of the parameters (train.ema)
    rate_scale: Float[Array, ""]  # the plateau schedule lowers this factor of the learning rate
    skipped: Int[Array, ""]  # number of steps skipped because the loss or gradient was not finite
    skipped_in_row: Int[Array, ""]  # number of steps skipped since the last finite one
    longest_skipped: Int[Array, ""]  # largest value of skipped_in_row so far

    @property
    def eval_params(self) -> Params:
        """The parameters used for evaluation: their moving average if train.ema is set."""
        return self.params if self.ema is None else self.ema


class Progress(NamedTuple):
    """The best evaluation and other progress of a run, saved with every checkpoint."""

    best_score: float = -math.inf  # highest score; a metric in LOWER_IS_BETTER is negated
    best_loss: float = math.inf  # validation loss at best_step
    best_step: int | None = None  # training step of the best evaluation
    since_best: int = 0  # number of evaluations since best_step
    since_rate_cut: int = 0  # evaluations since best_step or the last cut of the learning rate
    count: float = 0.0  # number of loss units trained on so far, such as target tokens
    done: bool = False  # whether the run is complete, possibly by early stopping
    first_loss: float | None = None  # loss of the first training step that was not skipped


def create_state(params: Params, optimizer: optax.GradientTransformation, ema: bool) -> TrainState:
    """Return the state before the first training step."""
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        ema=jax.tree.map(jnp.copy, params) if ema else None,
        rate_scale=jnp.ones(()),
        skipped=jnp.zeros((), jnp.int32),
        skipped_in_row=jnp.zeros((), jnp.int32),
        longest_skipped=jnp.zeros((), jnp.int32),
    )


def purpose_key(seed: int, purpose: str) -> Key[Array, ""]:
    """Return the random key of a run for one purpose, such as "weights" or "dropout"."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(purpose.encode()) & 0x7FFFFFFF)
