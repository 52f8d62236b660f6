"""Start the server of the lab."""

import asyncio
import ipaddress
import itertools
import logging
import socket
from collections.abc import Mapping
from typing import Any

import h11
import tqdm
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from errors import UserError
from serving.app import Lab, ServerLimits
from serving.run import LabRun
from serving.worker import ModelWorker

logger = logging.getLogger("alignax")
MOST_CONNECTIONS = 512
HEADER_SECONDS = 10.0  # to receive the header of a request


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 is a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise UserError(
            f"cannot listen on {host}, port {port} ({error.strerror}): set --port to a free port "
            "and --host to an address of this machine"
        ) from None


def browser_name(address: str) -> str:
    """Return the name under which browsers reach a server that listens on an IP address.

    A server that listens on all addresses, as 0.0.0.0, is reached by the name of this machine.
    """
    if ipaddress.ip_address(address).is_unspecified:
        return socket.gethostname()
    return f"[{address}]" if ":" in address else address


class _Protocol(H11Protocol):
    """HTTP protocol that closes a connection if a header does not arrive in HEADER_SECONDS.

    Otherwise, a client could open MOST_CONNECTIONS connections, send nothing and block the server.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        """Set a deadline if the server waits for a header, or for the rest of it."""
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def make_server(app: Any) -> uvicorn.Server:
    """Return a server that logs neither requests nor their texts."""
    return uvicorn.Server(uvicorn.Config(
        app,
        log_level="critical", access_log=False, server_header=False, proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS, timeout_keep_alive=5, timeout_graceful_shutdown=1,
        ws="none", lifespan="off", loop="asyncio", http=_Protocol,
    ))  # fmt: skip


def make_worker(runs: Mapping[str, LabRun], limits: ServerLimits) -> ModelWorker:
    """Return the worker, which runs sample requests from its start and shows the progress.

    They compile the programs that inputs of common lengths need.
    """
    jobs = [run.warm_ups() for run in runs.values()]
    # The programs for the shortest inputs of each run are compiled first.
    ordered = [job for same in itertools.zip_longest(*jobs) for job in same if job]
    bar = tqdm.tqdm(total=len(ordered), desc="compiling", unit=" sample requests", disable=None)

    def show(done: int) -> None:
        bar.update()
        if done == len(ordered):
            bar.close()
            logger.info("ran %d sample requests: inputs of common lengths are compiled", done)

    return ModelWorker(limits.waiting, ordered, show)


def serve(runs: Mapping[str, LabRun], host: str, port: int, limits: ServerLimits) -> None:
    """Serve the lab until Ctrl-C."""
    with listen(host, port) as listener:
        address, port = listener.getsockname()[:2]
        if not ipaddress.ip_address(address).is_loopback:
            logger.warning(
                "everyone who can reach %s, port %d can use these models: the lab has no passwords",
                address, port,
            )  # fmt: skip
        name = browser_name(address)
        print(f"Open http://{name}:{port} in a browser; Ctrl-C ends the lab.", flush=True)
        limits = limits._replace(hosts=[*limits.hosts, name])
        worker = make_worker(runs, limits)
        worker.start()
        make_server(Lab(runs, worker, limits).app()).run(sockets=[listener])
