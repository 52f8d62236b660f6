"""Devices as a mesh with one axis, over which batches are spread."""

import collections
import itertools
from collections.abc import Iterator

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from configs.base import Config
from data.batches import Batch
from errors import UserError


def make_mesh(devices: list | None = None) -> Mesh:
    devices = devices or jax.devices()
    return jax.make_mesh((len(devices),), ("data",), axis_types=(AxisType.Auto,), devices=devices)


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


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


def prefetch(batches: Iterator[Batch], mesh: Mesh, depth: int = 2) -> Iterator[dict]:
    """Batches on the devices, `depth` ahead of their use, so that copying hides behind work."""
    queue = collections.deque(put(batch, mesh) for batch in itertools.islice(batches, depth))
    while queue:
        yield queue.popleft()
        queue.extend(put(batch, mesh) for batch in itertools.islice(batches, 1))
