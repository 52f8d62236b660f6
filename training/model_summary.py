"""A summary of a model: its modules, parameters, FLOPs and memory, without training it."""

import collections
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh

from configs.base import Config
from training.devices import abstract, state_sharding
from training.flops import count_flops, flops_by_scope
from training.optimizers import make_optimizer
from training.state import TrainState, create_state, purpose_key
from training.step import make_train_step, run_arguments, zero_sums
from training.tables import aligned_table, layer_pattern, layer_range, shape_text

_LOSS = "(loss)"  # products outside all modules; for example, losses multiply by the output kernel


def summarize(task: Any, config: Config, mesh: Mesh) -> str:
    """Return tables of the parameters, the FLOPs and the memory of a run's model.

    The functions are only traced, so that no array of the size of the model is created.
    """
    optimizer = make_optimizer(config.optimizer, optax.constant_schedule(0.0))
    key = purpose_key(config.seed, "weights")
    state = jax.eval_shape(
        lambda key: create_state(task.init(key), optimizer, bool(config.train.ema)), key
    )
    forward, step, largest, steps = _flops(task, config, mesh, state, optimizer)
    count = task.train_count()
    unit = task.loss_unit.removesuffix("s")
    training = [
        ("", "operations"),
        (f"forward pass, per {unit}", _flops_text(sum(forward.values()) / count)),
        (f"training step, per {unit}", _flops_text(step / count)),
        ("training step, mean over batches", _flops_text(step / steps)),
        ("training step, largest batch", _flops_text(largest)),
        ("one epoch", _flops_text(step)),
    ]
    per_unit = {scope: flops / count for scope, flops in forward.items()}
    return "\n".join((
        _module_table(state.params, per_unit, unit),
        aligned_table(training, right=(1,)),
        "Operations are the FLOPs of matrix products, including those of padding; training steps "
        f"per epoch: {steps:,}, {task.loss_unit} per epoch: {count:,}.\n",
        _memory_table(state, mesh),
    ))  # fmt: skip


def _flops(
    task: Any, config: Config, mesh: Mesh, state: TrainState, optimizer: Any
) -> tuple[dict[str, int], int, int, int]:
    """Count the FLOPs of one epoch.

    Return the FLOPs of all forward passes by module, those of all training steps, those of the
    largest training step, and the number of training steps.
    """
    train_step: Any = make_train_step(
        task.loss, optimizer, optax.constant_schedule(0.0), config, mesh, state
    )
    run = jax.eval_shape(lambda: run_arguments(config, mesh))
    _, buckets, bucket_of = task.split("train")
    examples = np.bincount(bucket_of, minlength=len(buckets)).tolist()
    numbers = [-(-n // bucket.rows) for n, bucket in zip(examples, buckets, strict=True)]
    forward, counts = collections.Counter[str](), []
    batches = task.train_batches(config.seed, jax.process_index(), jax.process_count())
    for number, batch in zip(numbers, batches.shapes, strict=True):
        shapes = abstract(batch, mesh)
        for scope, flops in flops_by_scope(
            jax.make_jaxpr(task.loss)(state.params, shapes).jaxpr
        ).items():
            forward[_module(scope, state.params)] += number * flops
        sums = zero_sums(task.loss, state, shapes, mesh)
        counts.append(count_flops(train_step.trace(state, sums, shapes, run).jaxpr.jaxpr))
    total = sum(n * flops for n, flops in zip(numbers, counts, strict=True))
    return forward, total, max(counts), sum(numbers)


def _module(scope: str, modules: Any) -> str:
    """Return the path of the module in a JAX name scope; `modules` are the nested parameters.

    Flax uses the names of modules, or MODULE.METHOD, as scopes. Other parts of the scope, such as
    the class of the model, are skipped.
    """
    path = []
    for part in scope.split("/"):
        name = part.partition(".")[0]
        if isinstance(modules, dict) and name in modules:
            path.append(name)
            modules = modules[name]
    return "/".join(path)


def _module_table(params: Any, flops: dict[str, float], unit: str) -> str:
    """Return a table with one row per module and parameter; equal layers share their rows."""
    rows: list[tuple[str, ...]] = [("module", "shape", "parameters", f"operations per {unit}")]
    for name, inside in params.items():
        rows += _rows(name, inside, [name], flops, depth=0)
    if outside := flops.get(""):
        rows.append((_LOSS, "", "", _flops_text(outside)))
    total = sum(x.size for x in jax.tree.leaves(params))
    rows.append(("total", "", f"{total:,}", _flops_text(sum(flops.values()))))
    return aligned_table(rows, right=(2, 3))


def _rows(
    label: str, params: Any, paths: list[str], flops: dict[str, float], depth: int
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a module or a parameter; `paths` are those of all equal layers."""
    prefixes = tuple(f"{path}/" for path in paths)
    cost = sum(x for scope, x in flops.items() if f"{scope}/".startswith(prefixes))
    while isinstance(params, dict) and len(params) == 1:  # one row for a module with one parameter
        ((name, params),) = params.items()
        label, paths = f"{label}/{name}", [f"{path}/{name}" for path in paths]
    size = len(paths) * sum(x.size for x in jax.tree.leaves(params))
    shape = "" if isinstance(params, dict) else shape_text(params.shape)
    yield "  " * depth + label, shape, f"{size:,}", _flops_text(cost) if cost else ""
    groups: dict[Any, list[str]] = {}
    for name, inside in params.items() if isinstance(params, dict) else ():
        groups.setdefault((layer_pattern(name), repr(inside)), []).append(name)
    for names in groups.values():
        inner = [f"{path}/{name}" for path in paths for name in names]
        yield from _rows(layer_range(names), params[names[0]], inner, flops, depth + 1)


def _memory_table(state: TrainState, mesh: Mesh) -> str:
    """Return a table of the memory of the train state: in total, and of one device."""
    parts = {
        "parameters": state.params,
        "optimizer state": state.opt_state,
        "moving average": state.ema,
    }
    rows = [("memory", "total", "per device")]
    for name, tree in [*parts.items(), ("train state", state)]:
        if leaves := jax.tree.leaves(tree):
            shards = [
                sharding.shard_shape(x.shape)
                for x, sharding in zip(leaves, jax.tree.leaves(state_sharding(mesh, leaves)),
                                       strict=True)
            ]  # fmt: skip
            total, local = (
                sum(int(np.prod(shape)) * x.dtype.itemsize
                    for shape, x in zip(shapes, leaves, strict=True))
                for shapes in ([x.shape for x in leaves], shards)
            )  # fmt: skip
            rows.append((name, _bytes_text(total), _bytes_text(local)))
    return aligned_table(rows, right=(1, 2))


def _flops_text(flops: float) -> str:
    return _scaled(flops, 1000, tuple(f"{prefix}FLOPs" for prefix in ("", *"kMGTPE")))


def _bytes_text(size: float) -> str:
    return _scaled(size, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def _scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if value < base:
            return f"{value:.3g} {unit}"
        value /= base
    return f"{value:.3g} {units[-1]}"
