"""Devices as a mesh with one axis, over which batches are spread."""

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from configs.base import Config
from data.batches import Batch
from errors import UserError

# Products by cuBLAS as it chooses them, not the fastest in a trial of many kernels: on an H200 a
# training step of a 2 × 512 LSTM (ten steps of its loops unrolled) compiles in 8.4 s instead of 22,
# and takes 8.7 instead of 9.3 ms.
GPU_OPTIONS = {"xla_gpu_enable_triton_gemm": False, "xla_gpu_autotune_level": 0}


def make_mesh(devices: list | None = None) -> Mesh:
    devices = devices or jax.devices()
    return jax.make_mesh((len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


def compiled(mesh: Mesh, function: Callable, **options: Any) -> Any:
    """`jax.jit` for this mesh, with results on every device, and so on every host."""
    gpu = mesh.devices.flat[0].platform == "gpu"
    return jax.jit(
        function,
        out_shardings=replicated(mesh),
        compiler_options=GPU_OPTIONS if gpu else None,
        **options,
    )


def spread(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec("data"))


def check_rows(mesh: Mesh, config: Config) -> None:
    """Every micro-batch must give each device the same number of rows."""
    multiple, accumulation = config.data.batch_multiple, config.train.accumulation
    if multiple % (mesh.size * accumulation):
        raise UserError(
            f"{mesh.size} devices × train.accumulation={accumulation} do not divide "
            f"data.batch_multiple={multiple}: set it to a multiple of {mesh.size * accumulation}"
        )


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
