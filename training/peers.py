"""Messages about the other processes of a multi-host run that are late, frozen or gone."""

import atexit
import contextlib
import ctypes
import errno
import faulthandler
import logging
import os
import re
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from errors import UserError

logger = logging.getLogger("alignax")

CONNECT_SECONDS = 300  # limit for all processes to start and to connect
HEARTBEAT_SECONDS = 100  # JAX ends a run if a process has sent no heartbeat for this time
NOTICE_SECONDS = 10  # interval between two lines about a process that is late
BEAT_SECONDS = 3  # interval between the signs of life of `Beats`
_OWN_ERROR_SECONDS = 3  # time for the main thread to print its error; abort() waits 6 seconds

_FATAL = "Terminating process because the JAX distributed service detected fatal errors"
_BLOCK = 2**16  # bytes after which output is printed before it pauses
_REMEDY = (
    "look at the output of all processes, end those that still run, and run the same command again "
    "on all hosts to resume from the latest checkpoint"
)

Fail = Callable[[str], NoReturn]  # prints a message and ends the program with exit status 1

_failed = threading.Event()  # set if the main thread ends the program with its own error


def names(processes: list[int]) -> str:
    """Return "process 1" or "processes 1, 2"."""
    noun = "process" if len(processes) == 1 else "processes"
    return f"{noun} {', '.join(map(str, processes))}"


def prefer_own_error() -> None:
    """Let the main thread report its error, even if the other processes end first because of it."""
    _failed.set()


def silence_message(processes: list[int]) -> str:
    """Return the message about processes that do not answer."""
    verb = "has" if len(processes) == 1 else "have"
    seconds = _beats.silence(processes) if _beats else HEARTBEAT_SECONDS
    return f"{names(processes)} of this run {verb} not answered for {seconds:.0f} s: {_REMEDY}"


def check_address(address: str, listen: bool) -> None:
    """Raise UserError unless `address` is HOST:PORT; with `listen`, it must be free on this host.

    The check matters: JAX crashes if it cannot listen, and would share a port with another run.
    """
    host, colon, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not (colon and bare and port.isdecimal() and 0 < int(port) < 2**16) or (":" in host) != (
        f"[{bare}]" == host
    ):
        raise UserError(
            f"the address {address!r} of the coordinator is not HOST:PORT: write it as in "
            "10.0.0.1:12345, node1:12345 or [fd00::1]:12345"
        )
    if not listen:
        return
    try:
        _bind(bare, int(port))
    except OSError as error:
        raise UserError(
            f"process 0 cannot listen on {address} ({error.strerror}): --coordinator must be an "
            "address of the host of process 0 and a free port"
        ) from error


def _bind(host: str, port: int) -> None:
    """Raise OSError if no process can listen on this port of an address of this host.

    A name may stand for several addresses. JAX listens on those that can be used, which excludes
    IPv6 addresses in many containers.
    """
    problems, found = [], socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, resolved in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(resolved)
        except OSError as error:
            problems.append(error)
    in_use = [problem for problem in problems if problem.errno == errno.EADDRINUSE]
    if in_use or len(problems) == len(found):
        raise (in_use or problems)[0]


@contextlib.contextmanager
def connecting(where: str, fail: Fail) -> Iterator[None]:
    """Report every few seconds that the `with` block waits for processes; end it at the limit."""
    connected = threading.Event()

    def report() -> None:
        for seconds in range(NOTICE_SECONDS, CONNECT_SECONDS, NOTICE_SECONDS):
            if connected.wait(NOTICE_SECONDS):
                return
            logger.warning(
                f"waiting for all processes of this run to connect to {where}: {seconds} s "
                f"(at most {CONNECT_SECONDS} s)"
            )
        if not connected.wait(NOTICE_SECONDS):
            fail(
                f"the processes of this run did not all connect to {where} within "
                f"{CONNECT_SECONDS} s: start all of them within this time, and check that every "
                "host can reach this address"
            )

    threading.Thread(target=report, daemon=True).start()
    try:
        yield
    finally:
        connected.set()


def report_aborts(fail: Fail) -> None:
    """Replace the dump of JAX's coordination client, which aborts the process, by one message.

    The client aborts if a process sends no heartbeats or the coordinator has gone. JAX has no
    option to prevent this: its callback `missed_heartbeat_callback` cannot call Python functions.
    Therefore, a thread reads everything that C++ code writes to stderr, and prints all of it except
    for this dump. Python writes to stderr directly.
    """
    sys.stderr.flush()
    terminal, (source, sink) = os.dup(2), os.pipe()
    sys.stderr = open(terminal, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    for handler in logger.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stderr)
    os.dup2(sink, 2)
    os.close(sink)
    # Python's report of other crashes bypasses the thread, which ends with the process.
    faulthandler.enable(sys.stderr)
    # abort() calls this handler, sleep(SIGABRT), which gives the thread 6 seconds for its message.
    # A handler in Python could wait for a lock of the aborting thread forever.
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    libc.signal(signal.SIGABRT, ctypes.cast(libc.sleep, ctypes.c_void_p))
    thread = threading.Thread(target=_forward, args=(source, terminal, fail), daemon=True)
    thread.start()

    def finish() -> None:
        """Close the pipe, so that the thread prints the rest of the output and ends."""
        os.dup2(terminal, 2)
        thread.join(1)  # seconds; child processes may keep the pipe open

    atexit.register(finish)


def _forward(source: int, terminal: int, fail: Fail) -> None:
    """Copy `source` to `terminal`, in blocks that end after .3 seconds without output."""
    block, dump = b"", _FATAL.encode()
    while True:
        quiet = not select.select([source], [], [], 0.3 if block else None)[0]
        data = b"" if quiet else os.read(source, _BLOCK)
        block += data
        if data and len(block) < _BLOCK:
            continue
        if data:  # the block has not ended: keep a dump, or bytes that may be the start of one
            found = block.find(dump)
            size = found if found >= 0 else len(block) - len(dump)
            _write(terminal, block[:size])
            block = block[size:]
            if size:
                continue
        if message := abort_message(block.decode(errors="replace")):
            if _failed.is_set():
                time.sleep(_OWN_ERROR_SECONDS)
            fail(message)
        _write(terminal, block)
        block = b""
        if not quiet and not data:  # nothing can be written to the pipe any more
            return


def _write(file: int, data: bytes) -> None:
    """Write all of `data`; a single call of os.write may write less."""
    with contextlib.suppress(OSError):  # the terminal has gone, but the pipe must not fill up
        while data:
            data = data[os.write(file, data) :]


def abort_message(output: str) -> str:
    """Return the message that replaces this output of JAX's coordination client, or ""."""
    if _FATAL not in output:
        return ""
    status = output.partition(_FATAL)[2].partition("absl::Status: ")[2]
    silent = re.search(r"stopped sending heartbeats\):\n(.*?)\n[A-Z]", status, re.DOTALL)
    # One line per process, which ends in its number.
    processes = re.findall(r"(\d+)\s*$", silent[1], re.MULTILINE) if silent else []
    if processes:
        return silence_message([int(number) for number in processes])
    if "/Heartbeat" in status:
        return silence_message([0])
    if "Failed to send RPC" in status:
        return f"process 0 of this run, the coordinator, has ended or is unreachable: {_REMEDY}"
    return f"another process of this run has stopped ({status.partition(chr(10))[0]}): {_REMEDY}"


class Beats:
    """Signs of life of all processes, which tell who has stopped when a connection fails.

    A thread of every process increments a number in JAX's key-value store and reads the others.
    """

    def __init__(self, store: Any, process: int, processes: int):
        self._store, self._process = store, process
        self._numbers = dict.fromkeys(range(processes), "")
        self._heard = dict.fromkeys(range(processes), time.monotonic())
        self._missing: list[int] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        atexit.register(self._stop)  # before JAX disconnects

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(BEAT_SECONDS):
            number += 1
            with contextlib.suppress(RuntimeError):  # the coordinator does not answer
                self._set(str(number))
                for key, value in self._store.key_value_dir_get("alignax/beats/"):
                    self._hear(int(key.rpartition("/")[2]), value)

    def _set(self, value: str) -> None:
        key = f"alignax/beats/{self._process}"
        self._store.key_value_set(key, value, allow_overwrite=True)

    def _hear(self, process: int, number: str) -> None:
        if self._numbers[process] != number:
            self._numbers[process], self._heard[process] = number, time.monotonic()

    def silence(self, processes: list[int]) -> float:
        """Return for how many seconds all of these processes have given no sign of life."""
        return time.monotonic() - max(self._heard[process] for process in processes)

    def missing(self) -> list[int]:
        """Return the processes that give no sign of life during the next few intervals.

        This process will end, so it tells the others that it is not the reason. The coordinator
        waits longer than the others, because they need its store.
        """
        if self._missing is None:
            # The next sign that is read may be older than this call; a later one is not.
            since = time.monotonic() + BEAT_SECONDS
            end = since + BEAT_SECONDS * (2 if self._process else 3)
            while time.monotonic() < end and self._unheard(since):
                time.sleep(0.1)
            # If not even this process is heard, the coordinator does not answer.
            unheard = self._unheard(since)
            self._missing = [0] if self._process in unheard else unheard
            self._stop()
            with contextlib.suppress(RuntimeError):
                self._set("left")
        return self._missing

    def _unheard(self, since: float) -> list[int]:
        return [
            process
            for process, heard in self._heard.items()
            if heard < since and self._numbers[process] != "left"
        ]

    def _stop(self) -> None:
        self._ended.set()
        self._thread.join(BEAT_SECONDS)


_beats: Beats | None = None  # of this process, if it takes part in a multi-host run


def start_beats(store: Any, process: int, processes: int) -> None:
    """Start to give and to collect signs of life."""
    global _beats
    _beats = Beats(store, process, processes)


def missing() -> list[int]:
    """Return the processes that give no sign of life; wait for it for a few seconds."""
    return _beats.missing() if _beats else []
