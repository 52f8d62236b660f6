"""One optimiser step, jit-compiled over the mesh: the only place where weights change."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh

from configs.base import Config
from training.devices import replicated
from training.state import Params, TrainState, purpose_key

Sums = dict[str, Array]  # sums over examples; "count" is what the others are divided by
Loss = Callable[[Params, dict[str, Array], Array | None], Sums]


def make_train_step(
    loss: Loss, optimizer: optax.GradientTransformation, config: Config, mesh: Mesh
) -> Callable[[TrainState, Sums, dict[str, Array]], tuple[TrainState, Sums]]:
    """`step(state, sums, batch)`: the next state, and `sums` with this batch's added.

    Losses and counts are summed over micro-batches and, by the compiler, over devices; gradients
    are divided once by the whole batch's count, so uneven lengths cannot tilt them.
    """
    dropout_key = purpose_key(config.seed, "dropout")
    settings, accumulation = config.train, config.train.accumulation

    def gradients(params: Params, batch: dict[str, Array], key: Array) -> tuple[Params, Sums]:
        def objective(params: Params) -> tuple[Array, Sums]:
            sums = loss(params, batch, key)
            return sums["loss"], sums

        grads, sums = jax.grad(objective, has_aux=True)(params)
        return grads, sums

    def accumulated(params: Params, batch: dict[str, Array], key: Array) -> tuple[Params, Sums]:
        if accumulation == 1:
            return gradients(params, batch, key)

        # Micro-batch i takes rows i, i + n, ...: each device keeps the rows it has.
        def cut(x: Array) -> Array:
            return x.reshape(-1, accumulation, *x.shape[1:]).swapaxes(0, 1)

        def add(total, numbered):
            i, micro = numbered
            new = gradients(params, micro, jax.random.fold_in(key, i))
            return jax.tree.map(jnp.add, total, new), None

        micro = jax.tree.map(cut, batch)
        shapes = jax.eval_shape(gradients, params, jax.tree.map(lambda x: x[0], micro), key)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
        return jax.lax.scan(add, zeros, (jnp.arange(accumulation), micro))[0]

    def step(state: TrainState, total: Sums, batch: dict[str, Array]) -> tuple[TrainState, Sums]:
        key = jax.random.fold_in(dropout_key, state.step)
        grads, sums = accumulated(state.params, batch, key)
        grads = jax.tree.map(lambda g: g / jnp.maximum(sums["count"], 1), grads)
        norm = optax.tree.norm(grads)
        finite = jnp.isfinite(norm) & jnp.isfinite(sums["loss"])
        if config.optimizer.clip_norm:
            scale = jnp.minimum(1, config.optimizer.clip_norm / jnp.maximum(norm, 1e-12))
            grads = jax.tree.map(lambda g: g * scale, grads)
        new = _apply(state, grads, optimizer, settings.ema)
        # A step that is not finite leaves everything but the counters as it was.
        new = jax.tree.map(lambda n, old: jnp.where(finite, n, old), new, state)
        new = dataclasses.replace(
            new,
            step=state.step + 1,
            skipped=state.skipped + ~finite,
            skipped_in_row=jnp.where(finite, 0, state.skipped_in_row + 1),
        )
        sums = sums | {"gradient_norm": norm * sums["count"]}  # a mean over tokens, like the rest
        total = {name: total[name] + jnp.where(finite, x, 0) for name, x in sums.items()}
        return new, total

    # Outputs are placed as inputs are, or the second step would compile anew.
    return jax.jit(step, donate_argnums=(0, 1), out_shardings=replicated(mesh))


def _apply(
    state: TrainState, grads: Params, optimizer: optax.GradientTransformation, decay: float
) -> TrainState:
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    updates = jax.tree.map(lambda u: u * state.rate_scale, updates)
    params = optax.apply_updates(state.params, updates)
    ema = state.ema
    if ema is not None:
        ema = optax.incremental_update(params, ema, 1 - decay)
    return dataclasses.replace(state, params=params, opt_state=opt_state, ema=ema)


def zero_sums(loss: Loss, params: Params, batch: dict[str, Array], mesh: Mesh) -> Sums:
    """Where the running sums of `make_train_step` start."""
    shapes = jax.eval_shape(loss, params, batch, jax.random.key(0))
    zeros = {name: jnp.zeros(()) for name in (*shapes, "gradient_norm")}
    return jax.device_put(zeros, replicated(mesh))
