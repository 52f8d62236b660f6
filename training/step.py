"""One training step, compiled over the device mesh."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Bool, Float, Int, Key, Shaped

from configs.base import Config
from configs.registry import MODELS
from training.devices import compile_all, compiled, replicated, state_sharding
from training.flops import count_flops
from training.optimizers import applied_rate
from training.state import Params, TrainState, create_state, purpose_key

# Sums over the rows of a batch, by name. Reports divide them by "count", such as the number of
# target tokens; "examples" is the number of rows that are not padding.
Sums = dict[str, Float[Array, ""]]
Loss = Callable[[Params, dict[str, Array], Key[Array, ""] | None], Sums]


class Counters(NamedTuple):
    """Scalars of the train state after a training step; later steps do not donate them."""

    skipped: Int[Array, ""]
    skipped_in_row: Int[Array, ""]
    learning_rate: Float[Array, ""]


class RunArguments(NamedTuple):
    """Arguments of the training step that stay the same for a whole run.

    They are not constants, so that runs that differ only in them share one compiled program.
    """

    dropout_key: Key[Array, ""]
    learning_rate: Float[Array, ""]


StepOutput = tuple[TrainState, Sums, Counters]


def make_train_step(
    loss: Loss,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    config: Config,
    mesh: Mesh,
    like: TrainState,
) -> Callable[[TrainState, Sums, dict[str, Array], RunArguments], StepOutput]:
    """Return the training step, a function of the state, running sums, a batch and RunArguments.

    The step returns the new state, the updated running sums and the counters. It donates only the
    state. States have the sharding that `state_sharding` returns for `like`.

    Losses and gradients are summed over micro-batches and devices. The gradients are then divided
    by the number of tokens (or sentences) in the whole batch, so that every token (or sentence) has
    the same weight.
    """
    divisor = {"token": "count", "sentence": "examples"}[config.train.loss_per]

    def step(
        state: TrainState, total: Sums, batch: dict[str, Array], run: RunArguments
    ) -> StepOutput:
        key = jax.random.fold_in(run.dropout_key, state.step)
        # Gather sharded parameters for the forward and backward pass. Each device keeps only its
        # shard of the gradients.
        params = jax.lax.with_sharding_constraint(state.params, replicated(mesh))
        gathered = dataclasses.replace(state, params=params)
        grads, sums = _gradients(loss, gathered, batch, key, config.train.accumulation)
        grads = jax.lax.with_sharding_constraint(grads, state_sharding(mesh, grads))
        grads = jax.tree.map(lambda g: g / jnp.maximum(sums[divisor], 1), grads)
        norm = optax.tree.norm(grads)
        finite = jnp.isfinite(norm) & jnp.isfinite(sums["loss"])
        grads = _clip(grads, norm, config.optimizer.clip_norm)
        scale = run.learning_rate * state.rate_scale
        new = _apply(state, grads, optimizer, scale, config.train.ema)
        new = _skip_unless(finite, new, state)
        # Reports divide all sums by the count, so the norm is multiplied by the count first.
        sums = sums | {"gradient_norm": norm * sums["count"]}
        total = {name: total[name] + jnp.where(finite, x, 0) for name, x in sums.items()}
        # The schedule does not count skipped steps, in which the optimizer does not advance.
        rate = jnp.asarray(schedule(jnp.maximum(new.step - 1 - new.skipped, 0))) * scale
        return new, total, Counters(new.skipped, new.skipped_in_row, rate)

    # Outputs have the shardings of the inputs, so that the second step does not compile again.
    out_shardings = state_sharding(mesh, like), replicated(mesh), replicated(mesh)
    concurrent = MODELS[config.model.name].concurrent
    return compiled(mesh, step, out_shardings, concurrent, donate_argnums=0)


def initial_state(
    init: Callable[[Key[Array, ""]], Params],
    optimizer: optax.GradientTransformation,
    config: Config,
    mesh: Mesh,
) -> TrainState:
    """Return the state before the first training step, with random parameters."""

    def create(key: Key[Array, ""]) -> TrainState:
        return create_state(init(key), optimizer, bool(config.train.ema))

    key = purpose_key(config.seed, "weights")
    return compiled(mesh, create, state_sharding(mesh, jax.eval_shape(create, key)))(key)


def run_arguments(config: Config, mesh: Mesh) -> RunArguments:
    """Return the arguments of a run, replicated over the devices of all hosts."""
    rate = applied_rate(config.optimizer)
    return compiled(
        mesh, lambda: RunArguments(purpose_key(config.seed, "dropout"), jnp.float32(rate))
    )()


class CompiledStep:
    """A training step compiled ahead of time for every batch shape."""

    def __init__(
        self,
        step: Any,
        state: TrainState,
        sums: Sums,
        batches: Sequence[Any],
        run: RunArguments,
    ):
        """Compile `step` for each of `batches`, which may be `jax.ShapeDtypeStruct` trees."""
        self._run = run
        calls = [(state, sums, batch, run) for batch in batches]
        shapes = [_shape(batch) for batch in batches]
        self._by_shape = dict(zip(shapes, compile_all(step, calls), strict=True))
        counts = [count_flops(step.trace(*call).jaxpr.jaxpr) for call in calls]
        self._flops = dict(zip(shapes, counts, strict=True))

    def __len__(self) -> int:
        return len(self._by_shape)

    def flops(self, batch: Any) -> int:
        """Return the FLOPs of the matrix products of a training step with this batch."""
        return self._flops[_shape(batch)]

    def __call__(self, state: TrainState, sums: Sums, batch: Any) -> StepOutput:
        return self._by_shape[_shape(batch)](state, sums, batch, self._run)


def _shape(batch: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(batch[name].shape for name in sorted(batch))


def _gradients(
    loss: Loss,
    state: TrainState,
    batch: dict[str, Array],
    key: Key[Array, ""],
    accumulation: int,
) -> tuple[Params, Sums]:
    """Return the gradients of the summed loss and the sums of `loss`, added over micro-batches."""

    def gradients(batch: dict[str, Array], key: Key[Array, ""]) -> tuple[Params, Sums]:
        def objective(params: Params) -> tuple[Float[Array, ""], Sums]:
            sums = loss(params, batch, key)
            return sums["loss"], sums

        return jax.grad(objective, has_aux=True)(state.params)

    if accumulation == 1:
        return gradients(batch, key)

    # Micro-batch i of n has the rows i, i + n, ..., so that every row stays on its device.
    def split(x: Shaped[Array, "b *f"]) -> Shaped[Array, "n m *f"]:
        return x.reshape(-1, accumulation, *x.shape[1:]).swapaxes(0, 1)

    def add(total, numbered):
        i, micro = numbered
        return jax.tree.map(jnp.add, total, gradients(micro, jax.random.fold_in(key, i))), None

    micro = jax.tree.map(split, batch)
    shapes = jax.eval_shape(gradients, jax.tree.map(lambda x: x[0], micro), key)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.scan(add, zeros, (jnp.arange(accumulation), micro))[0]


def _clip(grads: Params, norm: Float[Array, ""], clip_norm: float) -> Params:
    """Scale the gradients down to the norm `clip_norm` if they exceed it; 0 disables clipping."""
    if not clip_norm:
        return grads
    scale = jnp.minimum(1, clip_norm / jnp.maximum(norm, 1e-12))
    return jax.tree.map(lambda g: g * scale, grads)


def _apply(
    state: TrainState,
    grads: Params,
    optimizer: optax.GradientTransformation,
    scale: Float[Array, ""],
    decay: float,
) -> TrainState:
    """Update the parameters, the optimizer state and the moving average of the parameters.

    The updates of the optimizer are multiplied by `scale`.
    """
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    updates = jax.tree.map(lambda u: u * scale, updates)
    params = optax.apply_updates(state.params, updates)
    ema = state.ema
    if ema is not None:
        warmup = (1 + state.step) / (10 + state.step)  # the average starts with small decays
        ema = optax.incremental_update(params, ema, 1 - jnp.minimum(decay, warmup))
    return dataclasses.replace(state, params=params, opt_state=opt_state, ema=ema)


def _skip_unless(finite: Bool[Array, ""], new: TrainState, old: TrainState) -> TrainState:
    """Return the new state if loss and gradient are finite, else the old one with new counters."""
    state = jax.tree.map(lambda n, o: jnp.where(finite, n, o), new, old)
    in_row = jnp.where(finite, 0, old.skipped_in_row + 1)
    return dataclasses.replace(
        state,
        step=old.step + 1,
        skipped=old.skipped + ~finite,
        skipped_in_row=in_row,
        longest_skipped=jnp.maximum(old.longest_skipped, in_row),
    )


def zero_sums(loss: Loss, state: TrainState, batch: Any, mesh: Mesh) -> Sums:
    """Return running sums of zero, with the names of the sums that `loss` returns."""
    shapes = jax.eval_shape(loss, state.params, batch, jax.random.key(0))
    zeros = {name: jnp.zeros(()) for name in (*shapes, "gradient_norm")}
    return jax.device_put(zeros, replicated(mesh))
