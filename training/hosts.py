"""Multi-host runs: connect the processes, and make them agree on errors and conditions."""

import contextlib
import itertools
import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import jax

from errors import UserError, first_line
from training import peers

logger = logging.getLogger("alignax")

WAIT_HOURS = 6  # limit for a process that is late, for example because it prepares its corpus

_rounds = itertools.count()


def connect(
    address: str | None, processes: int | None, process: int | None, fail: peers.Fail
) -> None:
    """Connect the processes of a run. Must be called before JAX initializes its devices.

    `address` is HOST:PORT of the first process, and `process` the index of this process,
    from 0. JAX detects arguments that are None under SLURM, Open MPI, Kubernetes and Cloud TPU.
    `fail` prints a message and ends the program; threads call it when a process is missing.
    """
    # By default, JAX listens on all network interfaces.
    listen = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", address)
    if address is not None:
        peers.check_address(address, listen=False)
    if listen is not None and process == 0:
        peers.check_address(listen, listen=True)
    # JAX's preemption service would take over SIGTERM, which the trainer handles itself.
    jax.config.update("jax_enable_preemption_service", False)
    peers.report_aborts(fail)
    try:
        with peers.connecting(address or "the coordinator", fail):
            jax.distributed.initialize(
                address,
                processes,
                process,
                # JAX aborts with a dump at its limit, so `connecting` must come first.
                initialization_timeout=2 * peers.CONNECT_SECONDS,
                heartbeat_timeout_seconds=peers.HEARTBEAT_SECONDS,
                coordinator_bind_address=listen,
            )
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"the processes of this run could not connect ({first_line(error)}): check that all of "
            "them can reach HOST:PORT, and start each one with --coordinator=HOST:PORT "
            "--processes=N --process=I (under SLURM, Open MPI, Kubernetes or Cloud TPU: with "
            "--distributed)"
        ) from None
    if jax.process_count() > 1:
        peers.start_beats(_store(), jax.process_index(), jax.process_count())
    if not is_first_process():
        logger.setLevel(logging.WARNING)  # hide the progress of all processes but the first


def _store() -> Any:
    """Return the client of the key-value store of the run, for which JAX has no public interface.

    Waiting with the store has two advantages over collective operations of the devices: it has no
    fixed time limit (Gloo: 30 seconds), and it tells which processes are late.
    """
    from jax._src.distributed import global_state

    return global_state.client


def is_first_process() -> bool:
    """Return whether this is the first process of the run, which writes logs and records."""
    return jax.process_index() == 0


def all_agree(condition: bool) -> bool:
    """Return whether the condition holds on every host. All hosts must call this.

    Hosts that are late are waited for, and named in a line every few seconds.
    """
    if jax.process_count() == 1:
        return condition
    number = next(_rounds)
    votes = _exchange(f"alignax/votes/{number}", str(condition))
    if is_first_process() and number:  # every host that has voted now has read all earlier votes
        _store().key_value_delete(f"alignax/votes/{number - 1}")
    return all(vote == "True" for vote in votes)


def _exchange(folder: str, value: str) -> list[str]:
    """Return the values that all processes have passed to this call."""
    store = _store()
    store.key_value_set(f"{folder}/{jax.process_index()}", value)
    waiting, values = _Waiting(folder), []
    while len(values) < jax.process_count():
        try:  # one second at a time, so that Ctrl-C takes effect
            values.append(store.blocking_key_value_get(f"{folder}/{len(values)}", 1000))
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            waiting.report(store)
    return values


class _Waiting:
    """Reports which processes are late."""

    def __init__(self, folder: str):
        self._folder, self._began, self._notices = folder, time.monotonic(), 1

    def report(self, store: Any) -> None:
        """Name the late processes if the next line is due; raise UserError at the limit."""
        seconds = time.monotonic() - self._began
        if seconds < self._notices * peers.NOTICE_SECONDS:
            return
        self._notices += 1
        keys = [key for key, _ in store.key_value_dir_get(f"{self._folder}/")]
        present = {int(key.rpartition("/")[2]) for key in keys}
        late = peers.names([i for i in range(jax.process_count()) if i not in present])
        if seconds > WAIT_HOURS * 3600:
            raise UserError(
                f"{late} of this run kept the others waiting for more than {WAIT_HOURS} hours: see "
                "its output, and run the same command again on all hosts"
            )
        if jax.process_index() == min(present):  # one line suffices
            logger.warning(
                f"waiting for {late} of this run: {seconds:.0f} s (at most {WAIT_HOURS} hours)"
            )


@contextlib.contextmanager
def raise_on_all_hosts() -> Iterator[None]:
    """Raise an error on every host if the `with` block failed on any host.

    Without this, the hosts that succeeded would wait forever for the one that failed.
    """
    problem = None
    try:
        yield
    except Exception as error:
        problem = error
        peers.prefer_own_error()
    try:
        fine = all_agree(problem is None)
    except Exception:
        if problem is not None:  # the other hosts may have ended because of it
            raise problem from None
        raise
    if not fine and jax.process_count() > 1:
        _await_readers()
    if problem is not None:
        raise problem
    if not fine:
        raise UserError("another process of this run stopped with an error: see its output")


def _await_readers() -> None:
    """Wait, in the first process, until all others have read the votes: it hosts their store."""
    store = _store()
    store.key_value_set(f"alignax/read/{jax.process_index()}", "")
    if is_first_process():
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            for process in range(jax.process_count()):
                store.blocking_key_value_get(f"alignax/read/{process}", 30_000)


def lost_process(error: BaseException) -> str:
    """Return a message if an error means that the connection to a process is lost, or ""."""
    text = str(error)
    if not any(word in text for word in ("Gloo", "NCCL", "heartbeat", "CoordinationService")):
        return ""
    if missing := peers.missing():
        return peers.silence_message(missing)
    return (
        f"the connection to another process of this run has failed ({first_line(error)}): see the "
        "output of all processes, and run the same command again on all hosts to resume from the "
        "latest checkpoint"
    )
