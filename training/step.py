"""One optimiser step, jit-compiled over the mesh: the only place where weights change."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh

from configs.base import Config
from training.devices import compile_all, compiled, divided, replicated
from training.state import Params, TrainState, purpose_key

# Sums over a batch. "count" is what the others are divided by where they are reported (target
# tokens, say); "examples" are the rows that are no padding.
Sums = dict[str, Array]
Loss = Callable[[Params, dict[str, Array], Array | None, dict[str, Array] | None], Sums]
AVERAGE_DECAY = 0.9  # of TrainState.averages: Xu 2015's baseline b ← .9 b + .1 log p


def make_train_step(
    loss: Loss,
    optimizer: optax.GradientTransformation,
    config: Config,
    mesh: Mesh,
    like: TrainState,
) -> Callable[[TrainState, Sums, dict[str, Array], Array], tuple[TrainState, Sums]]:
    """`step(state, sums, batch, key)`: the next state, and `sums` with this batch's added. The key
    is an argument, so that runs of other seeds find the same program in the cache of compilations.

    Losses and counts are summed over micro-batches and, by the compiler, over devices; gradients
    are divided once by the whole batch's count, so uneven lengths cannot tilt them. States are
    placed as `like` should be.
    """
    clip_norm = config.optimizer.clip_norm
    divisor = {"token": "count", "sentence": "examples"}[config.train.loss_per]

    def step(
        state: TrainState, total: Sums, batch: dict[str, Array], key: Array
    ) -> tuple[TrainState, Sums]:
        key = jax.random.fold_in(key, state.step)
        # Where parameters are divided over devices, each gathers them for its rows, and keeps its
        # part of the summed gradients.
        params = jax.lax.with_sharding_constraint(state.params, replicated(mesh))
        whole = dataclasses.replace(state, params=params)
        grads, sums = _gradients(loss, whole, batch, key, config.train.accumulation)
        grads = jax.lax.with_sharding_constraint(grads, divided(mesh, grads))
        grads = jax.tree.map(lambda g: g / jnp.maximum(sums[divisor], 1), grads)
        norm = optax.tree.norm(grads)
        finite = jnp.isfinite(norm) & jnp.isfinite(sums["loss"])
        if clip_norm:
            scale = jnp.minimum(1, clip_norm / jnp.maximum(norm, 1e-12))
            grads = jax.tree.map(lambda g: g * scale, grads)
        new = _apply(state, grads, sums, optimizer, config.train.ema)
        # A step that is not finite leaves everything but the counters as it was.
        new = jax.tree.map(lambda n, old: jnp.where(finite, n, old), new, state)
        in_row = jnp.where(finite, 0, state.skipped_in_row + 1)
        new = dataclasses.replace(
            new,
            step=state.step + 1,
            skipped=state.skipped + ~finite,
            skipped_in_row=in_row,
            longest_skipped=jnp.maximum(state.longest_skipped, in_row),
        )
        sums = sums | {"gradient_norm": norm * sums["count"]}  # a mean over tokens, like the rest
        total = {name: total[name] + jnp.where(finite, x, 0) for name, x in sums.items()}
        return new, total

    # Outputs are placed as inputs are, or the second step would compile anew.
    placed = divided(mesh, like), replicated(mesh)
    return compiled(mesh, step, placed, donate_argnums=(0, 1))


def dropout_key(config: Config, mesh: Mesh) -> Array:
    """For all steps of a run. Computed on every device, for some may be of other hosts."""
    return compiled(mesh, lambda: purpose_key(config.seed, "dropout"))()


class CompiledStep:
    """A step that is compiled for all shapes of batches before the first is taken, side by side."""

    def __init__(
        self, step: Any, state: TrainState, sums: Sums, batches: Sequence[Any], key: Array
    ):
        """`batches` stand for the shapes there are; the step's number is folded into `key`."""
        self._key = key
        ready = compile_all(step, [(state, sums, batch, key) for batch in batches])
        self._by_shape = dict(zip(map(_shape, batches), ready, strict=True))

    def __len__(self) -> int:
        return len(self._by_shape)

    def __call__(self, state: TrainState, sums: Sums, batch: Any) -> tuple[TrainState, Sums]:
        return self._by_shape[_shape(batch)](state, sums, batch, self._key)


def _shape(batch: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(batch[name].shape for name in sorted(batch))


def _gradients(
    loss: Loss, state: TrainState, batch: dict[str, Array], key: Array, accumulation: int
) -> tuple[Params, Sums]:
    """Gradients of the summed loss and all sums, over a batch in so many micro-batches."""

    def of(batch: dict[str, Array], key: Array) -> tuple[Params, Sums]:
        def objective(params: Params) -> tuple[Array, Sums]:
            sums = loss(params, batch, key, state.averages)
            return sums["loss"], sums

        return jax.grad(objective, has_aux=True)(state.params)

    if accumulation == 1:
        return of(batch, key)

    # Micro-batch i takes rows i, i + n, ...: each device keeps the rows it has.
    def cut(x: Array) -> Array:
        return x.reshape(-1, accumulation, *x.shape[1:]).swapaxes(0, 1)

    def add(total, numbered):
        i, micro = numbered
        return jax.tree.map(jnp.add, total, of(micro, jax.random.fold_in(key, i))), None

    micro = jax.tree.map(cut, batch)
    shapes = jax.eval_shape(of, jax.tree.map(lambda x: x[0], micro), key)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.scan(add, zeros, (jnp.arange(accumulation), micro))[0]


def _apply(
    state: TrainState,
    grads: Params,
    sums: Sums,
    optimizer: optax.GradientTransformation,
    decay: float,
) -> TrainState:
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    updates = jax.tree.map(lambda u: u * state.rate_scale, updates)
    params = optax.apply_updates(state.params, updates)
    # Young averages follow faster, or they would remember how they began for long.
    young = (1 + state.step) / (10 + state.step)
    ema = state.ema
    if ema is not None:
        ema = optax.incremental_update(params, ema, 1 - jnp.minimum(decay, young))
    found = {name: sums[name] / jnp.maximum(sums["count"], 1) for name in state.averages}
    averages = optax.incremental_update(
        found, state.averages, 1 - jnp.minimum(AVERAGE_DECAY, young)
    )
    return dataclasses.replace(
        state, params=params, opt_state=opt_state, ema=ema, averages=averages
    )


def zero_sums(loss: Loss, state: TrainState, batch: Any, mesh: Mesh) -> Sums:
    """Where the running sums of `make_train_step` start."""
    shapes = jax.eval_shape(loss, state.params, batch, jax.random.key(0), state.averages)
    zeros = {name: jnp.zeros(()) for name in (*shapes, "gradient_norm")}
    return jax.device_put(zeros, replicated(mesh))
