"""Devices as a mesh: batches are spread over all of them, large arrays of the state over `fsdp`."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from configs.base import Config
from data.batches import Batch
from errors import UserError

# Products by cuBLAS as it chooses them, not the fastest in a trial of many kernels: on an H200 a
# training step of a 2 × 512 LSTM (ten steps of its loops unrolled) compiles in 8.4 s instead of 22,
# and takes 8.7 instead of 9.3 ms. Whole loops as one command buffer: no kernel waits for the host,
# and a beam of the same model writes 6,700 instead of 6,000 sentences a second.
GPU_OPTIONS = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_autotune_level": 0,
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,WHILE,"
    "DYNAMIC_SLICE_FUSION",
}
AXES = ("data", "fsdp")
SMALLEST = 2**12  # numbers from which an array is worth being divided


def make_mesh(devices: list | None = None, fsdp: int = 1) -> Mesh:
    """All devices there are, of all hosts, in rows of `fsdp`."""
    devices = devices or jax.devices()
    if len(devices) % fsdp:
        raise UserError(
            f"mesh.fsdp={fsdp} does not divide the {len(devices)} devices there are: set it to a "
            "number that does"
        )
    # Host after host, so that the rows that a host reads are where the batch has them.
    devices = sorted(devices, key=lambda device: (device.process_index, device.id))
    return Mesh(np.array(devices).reshape(-1, fsdp), AXES, axis_types=(AxisType.Auto,) * 2)


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


def spread(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec(AXES))


def divided(mesh: Mesh, tree: Any) -> Any:
    """How the arrays of a state are placed: large ones cut along their longest axis that `fsdp`
    divides, over the devices of a row; others, and all of them where fsdp is 1, on every device."""
    fsdp = mesh.shape["fsdp"]

    def own(x: Any) -> NamedSharding:
        axes = [axis for axis, size in enumerate(x.shape) if size % fsdp == 0]
        if fsdp == 1 or x.size < SMALLEST or not axes:
            return replicated(mesh)
        longest = max(axes, key=lambda axis: x.shape[axis])
        return NamedSharding(mesh, PartitionSpec(*[None] * longest, "fsdp"))

    return jax.tree.map(own, tree)


def compiled(mesh: Mesh, function: Callable, placed: Any = None, **options: Any) -> Any:
    """`jax.jit` for this mesh, with results `placed` so, or else on every device, and so on every
    host."""
    gpu = mesh.devices.flat[0].platform == "gpu"
    return jax.jit(
        function,
        out_shardings=replicated(mesh) if placed is None else placed,
        compiler_options=GPU_OPTIONS if gpu else None,
        **options,
    )


def compile_all(function: Any, calls: Sequence[tuple], **options: Any) -> list[Any]:
    """A program of a `compiled` function for each of these calls, whose arguments may be shapes
    alone; XLA compiles them side by side, and the function's own calls find them compiled."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda call: function.lower(*call, **options).compile(), calls))


def check_rows(mesh: Mesh, config: Config) -> None:
    """Every micro-batch must give each device the same number of rows."""
    accumulation = config.train.accumulation
    name = "batch_size" if config.data.batch_unit == "sentences" else "batch_multiple"
    if config.data[name] % (mesh.size * accumulation):
        raise UserError(
            f"{mesh.size} devices × train.accumulation={accumulation} do not divide "
            f"data.{name}={config.data[name]}: set it to a multiple of {mesh.size * accumulation}"
        )


def fit_rows(mesh: Mesh, config: Config) -> Config:
    """For evaluation, which any number of devices can do: rows are a multiple of it."""
    fitting = config.copy_and_resolve_references()
    fitting.data.batch_multiple = -(-config.data.batch_multiple // mesh.size) * mesh.size
    return fitting


def put(batch: Batch, mesh: Mesh) -> dict[str, jax.Array]:
    """This host's rows as part of a batch that is spread over all devices."""
    sharding = spread(mesh)
    if jax.process_count() == 1:
        return jax.device_put(batch, sharding)
    return {
        name: jax.make_array_from_process_local_data(sharding, rows) for name, rows in batch.items()
    }


def abstract(batch: Batch, mesh: Mesh) -> dict[str, jax.ShapeDtypeStruct]:
    """What `put` would make of a batch, without its numbers."""
    hosts = jax.process_count()
    return {
        name: jax.ShapeDtypeStruct(
            (len(rows) * hosts, *rows.shape[1:]), rows.dtype, sharding=spread(mesh)
        )
        for name, rows in batch.items()
    }
