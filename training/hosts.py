"""Multi-host runs: connect the processes, and make them agree on errors and conditions."""

import contextlib
import logging
from collections.abc import Iterator

import jax
import numpy as np
from jax.experimental import multihost_utils

from errors import UserError, first_line


def connect(address: str | None, processes: int | None, process: int | None) -> None:
    """Connect the processes of a run. Must be called before JAX initializes its devices.

    `address` is HOST:PORT of the first process, and `process` the index of this process,
    from 0. JAX detects arguments that are None under SLURM, Open MPI, Kubernetes and Cloud TPU.
    """
    # JAX's preemption service would take over SIGTERM, which the trainer handles itself.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(address, processes, process)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"the processes of this run could not connect ({first_line(error)}): check that all of "
            "them can reach HOST:PORT, and start each one with --coordinator=HOST:PORT "
            "--processes=N --process=I (under SLURM, Open MPI, Kubernetes or Cloud TPU: with "
            "--distributed)"
        ) from None
    if not first():
        logging.getLogger("alignax").setLevel(
            logging.WARNING
        )  # hide the progress of all processes but the first


def first() -> bool:
    """Return whether this is the first process of the run, which writes logs and records."""
    return jax.process_index() == 0


def all_agree(condition: bool) -> bool:
    """Return whether the condition holds on every host. All hosts must call this."""
    if jax.process_count() == 1:
        return condition
    return bool(np.all(multihost_utils.process_allgather(np.array(condition))))


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Raise an error on every host if the `with` block failed on any host.

    Without this, the hosts that succeeded would wait forever for the one that failed.
    """
    problem = None
    try:
        yield
    except Exception as error:
        problem = error
    fine = all_agree(problem is None)
    if problem is not None:
        raise problem
    if not fine:
        raise UserError("another process of this run stopped with an error: see its output")
