"""The device mesh, and how batches and train states are sharded over it."""

import collections
import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from configs.base import Config
from data.batches import Batch
from errors import UserError

# All matrix products use cuBLAS, and XLA's autotuning chooses among its algorithms. Command buffers
# include whole loops, so that no kernel waits for the host. Measurements:
# docs/performance_decisions.md.
GPU_OPTIONS = {
    "xla_gpu_enable_triton_gemm": False,
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,CONDITIONAL,WHILE,"
    "DYNAMIC_SLICE_FUSION",
}
# Independent kernels of a command buffer run at the same time.
CONCURRENT_OPTIONS = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
AXES = ("data", "state")  # names of the mesh axes
SMALLEST = 2**12  # arrays with fewer elements are replicated instead of sharded
CPU_DEVICES = 2  # number of JAX devices into which training divides a CPU

# Number of programs that are dispatched beside the one that the host waits for. They keep the
# devices busy while the host is delayed, but a signal takes effect only after all of them. If too
# many are dispatched (36, but not 28), several devices of a CPU can wait for each other forever.
# Measurements: docs/performance_decisions.md.
AHEAD = 8
LONGEST_WAIT = 600  # seconds to wait for another process that is compiling the same program

logger = logging.getLogger("alignax")


def divide_cpu(config: Config) -> None:
    """Divide the CPU into two JAX devices, each of which trains on half of every batch.

    On two cores, this is faster than one device (docs/performance_decisions.md). This function has
    no effect on accelerators, on a single core, in multi-host runs, if the rows of a batch cannot
    be halved, and if the user has set the number of devices. Call it before JAX uses a device.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    rows, micro_batches = config.data[_rows_field(config)], config.train.accumulation
    even = rows % (CPU_DEVICES * micro_batches) == 0  # in training
    even &= config.data.batch_multiple % CPU_DEVICES == 0  # in validation
    chosen = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    chosen |= "JAX_NUM_CPU_DEVICES" in os.environ
    if (cores or 1) > 1 and even and not (chosen or jax.distributed.is_initialized()):
        jax.config.update("jax_num_cpu_devices", CPU_DEVICES)


def make_mesh(devices: list | None = None, state_shards: int = 1) -> Mesh:
    """Return a mesh of shape [data, state] over `devices` (default: all devices of all hosts).

    Batches are sharded over both axes. Train states are sharded over the axis "state", which has
    `state_shards` devices, and replicated over the axis "data".
    """
    devices = devices or jax.devices()
    if len(devices) % state_shards:
        raise UserError(
            f"mesh.state_shards={state_shards} does not divide the number of devices, "
            f"{len(devices)}: set it to a divisor of {len(devices)}"
        )
    # Sort devices by host, so that each host reads the batch rows of its own devices.
    devices = sorted(devices, key=lambda device: (device.process_index, device.id))
    grid = np.array(devices).reshape(-1, state_shards)
    return Mesh(grid, AXES, axis_types=(AxisType.Auto,) * 2)


def replicated(mesh: Mesh) -> NamedSharding:
    """Return the sharding in which every device holds the whole array."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Return the sharding that divides the rows of a batch over all devices."""
    return NamedSharding(mesh, PartitionSpec(AXES))


def state_sharding(mesh: Mesh, tree: Any) -> Any:
    """Return the sharding of every array in a train state.

    Large arrays are divided over the mesh axis "state", along their longest dimension that the
    number of devices on this axis divides. All other arrays are replicated.
    """
    shards = mesh.shape["state"]

    def sharding(x: Any) -> NamedSharding:
        divisible = [axis for axis, size in enumerate(x.shape) if size % shards == 0]
        if shards == 1 or x.size < SMALLEST or not divisible:
            return replicated(mesh)
        longest = max(divisible, key=lambda axis: x.shape[axis])
        return NamedSharding(mesh, PartitionSpec(*[None] * longest, "state"))

    return jax.tree.map(sharding, tree)


def compiled(
    mesh: Mesh,
    function: Callable,
    out_shardings: Any = None,
    concurrent: bool = False,
    **options: Any,
) -> Any:
    """`jax.jit` with compiler options for the mesh's devices; outputs are replicated by default.

    With `concurrent`, a GPU runs independent kernels at the same time. This is faster for programs
    with many small kernels, such as recurrent models and decoding.
    """
    gpu = mesh.devices.flat[0].platform == "gpu"
    gpu_options = GPU_OPTIONS | (CONCURRENT_OPTIONS if concurrent else {})
    return jax.jit(
        function,
        out_shardings=replicated(mesh) if out_shardings is None else out_shardings,
        compiler_options=gpu_options if gpu else None,
        **options,
    )


def compile_all(function: Any, calls: Sequence[tuple], **options: Any) -> list[Any]:
    """Compile a `compiled` function for several argument tuples in parallel.

    Arguments may be `jax.ShapeDtypeStruct`. Return one executable per tuple. Later calls of the
    function with arguments of the same shapes do not compile it again.

    Functions are not traced in threads, which would slow each other down.
    """
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(_compile, function.lower(*call, **options)) for call in calls]
    return [future.result() for future in futures]


def _compile(lowered: Any) -> Any:
    """Compile a program, after waiting for other processes that are compiling the same one.

    After the wait, the program is usually in the compilation cache. Processes of multi-host runs do
    not wait, because they compile together.
    """
    cache = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if not cache or "://" in cache or jax.process_count() > 1:
        return lowered.compile()
    program = hashlib.sha256(lowered.as_text().encode()).hexdigest()
    # There are few lock files, so that they need not be deleted; two programs rarely share one.
    with _turn(Path(cache) / "locks" / program[:3]):
        return lowered.compile()


@contextlib.contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """Hold a file lock, after waiting for it for at most LONGEST_WAIT seconds.

    Without a lock, as on file systems that do not support them, the caller goes on.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(lock.open("w"))  # closing the file releases the lock
            until = time.monotonic() + LONGEST_WAIT
            if not _locked(file):
                _announce_wait()
            while not _locked(file) and time.monotonic() < until:
                time.sleep(0.2)
        yield


@functools.cache  # one message for all programs
def _announce_wait() -> None:
    logger.info("waiting for another process that is compiling the same programs")


def _locked(file: TextIO) -> bool:
    """Lock a file; return False if another process holds its lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def dispatched(results: Iterable[Any], ahead: int = AHEAD) -> Iterator[Any]:
    """Yield the results of programs, each after the `ahead` next programs have been dispatched.

    `results` dispatches a program whenever an item is taken from it. The caller waits for each
    result, so that the number of waiting programs is limited.
    """
    waiting: collections.deque[Any] = collections.deque()
    for result in results:
        waiting.append(result)
        if len(waiting) > ahead:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def fetched(results: Iterable[Any], ahead: int = AHEAD) -> Iterator[Any]:
    """Yield the results of programs as NumPy arrays; see `dispatched`."""
    return map(jax.device_get, dispatched(results, ahead))


def batch_results(
    function: Any,
    mesh: Mesh,
    params: Any,
    batches: Iterable[Batch],
    *arguments: Any,
    ahead: int = AHEAD,
    **options: Any,
) -> Iterator[Any]:
    """Compile a function for the shapes of all batches, and return an iterator over its results.

    The results are `function(params, batch, *arguments)` as NumPy arrays, one per batch. Every host
    has the same batches, and transfers its rows of them. `ahead` is explained in `dispatched`.
    """
    host, hosts = jax.process_index(), jax.process_count()
    parts = [{k: np.array_split(x, hosts)[host] for k, x in batch.items()} for batch in batches]
    shapes = {tuple(x.shape for x in part.values()): abstract(part, mesh) for part in parts}
    compile_all(function, [(params, part, *arguments) for part in shapes.values()], **options)
    calls = (function(params, put(part, mesh), *arguments, **options) for part in parts)
    return fetched(calls, ahead)


def _rows_field(config: Config) -> str:
    """Return the config.data field whose value divides the rows of every training batch."""
    return "batch_size" if config.data.batch_unit == "sentences" else "batch_multiple"


def check_rows(mesh: Mesh, config: Config) -> None:
    """Check that the devices can divide every micro-batch into equal numbers of rows."""
    accumulation, name = config.train.accumulation, _rows_field(config)
    if config.data[name] % (mesh.size * accumulation):
        raise UserError(
            f"{mesh.size} devices × train.accumulation={accumulation} do not divide "
            f"data.{name}={config.data[name]}: set it to a multiple of {mesh.size * accumulation}"
        )


def fit_rows(mesh: Mesh, config: Config) -> Config:
    """Return the config with data.batch_multiple rounded up to a multiple of the device count.

    Only evaluation may round it, because the results of training depend on the batch size.
    """
    fitting = config.copy_and_resolve_references()
    fitting.data.batch_multiple = -(-config.data.batch_multiple // mesh.size) * mesh.size
    return fitting


def put(batch: Batch, mesh: Mesh) -> dict[str, jax.Array]:
    """Transfer this host's rows of a batch to its devices; return the global batch."""
    sharding = batch_sharding(mesh)
    if jax.process_count() == 1:
        return jax.device_put(batch, sharding)
    return {
        name: jax.make_array_from_process_local_data(sharding, rows) for name, rows in batch.items()
    }


def abstract(batch: Batch, mesh: Mesh) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes, dtypes and shardings of `put(batch, mesh)`."""
    hosts = jax.process_count()
    return {
        name: jax.ShapeDtypeStruct(
            (len(rows) * hosts, *rows.shape[1:]), rows.dtype, sharding=batch_sharding(mesh)
        )
        for name, rows in batch.items()
    }
