"""Several hosts as one: how they find each other, and how they come to one decision."""

import contextlib
import logging
from collections.abc import Iterator

import jax
import numpy as np
from jax.experimental import multihost_utils

from errors import UserError, first_line


def connect(address: str | None, processes: int | None, process: int | None) -> None:
    """Joins the other processes of a run, before JAX looks for devices.

    What is None, JAX finds out by itself from SLURM, Open MPI, Kubernetes or Cloud TPU.
    """
    # It would keep SIGTERM for itself; the trainer listens, and all hosts stop together.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(address, processes, process)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"the processes of this run did not find each other ({first_line(error)}): "
            "start every one with --coordinator=HOST:PORT --processes=N --process=I, or under "
            "SLURM, Open MPI, Kubernetes or Cloud TPU with --distributed"
        ) from None
    if not first():
        logging.getLogger("alignax").setLevel(logging.WARNING)  # one of them tells


def first() -> bool:
    """Whether this process is the one that writes logs."""
    return jax.process_index() == 0


def all_agree(fine: bool) -> bool:
    """Whether it is so on every host. All of them must ask."""
    if jax.process_count() == 1:
        return fine
    return bool(np.all(multihost_utils.process_allgather(np.array(fine))))


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What one host cannot do, none goes on from: the others would wait for it for ever."""
    problem = None
    try:
        yield
    except Exception as error:
        problem = error
    fine = all_agree(problem is None)
    if problem is not None:
        raise problem
    if not fine:
        raise UserError("another process of this run stopped: its message says why")
