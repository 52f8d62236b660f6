import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time

import jax
import pytest

from errors import UserError
from tests.programs import ROOT
from training import hosts, peers

FATAL = (
    "F1117 05:44:00.630208   30279 client.h:80] Terminating process because the JAX distributed "
    "service detected fatal errors. This most likely indicates that another task died. "
    "absl::Status: "
)
SILENT = (
    "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):\n{}\n"
    "The tasks have crashed. Check the task logs.\n\nRPC: /xla/PollForError\n*** Check failure\n"
)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (SILENT.format("1"), "process 1 of this run has not answered for 100 s"),
        (SILENT.format("1\n12"), "processes 1, 12 of this run have not answered"),
        (SILENT.format("/job:jax_worker/replica:0/task:3"), "process 3 of this run has not"),
        (
            SILENT.format("unknown"),
            "another process of this run has stopped (UNAVAILABLE: The following tasks are",
        ),
        ("DEADLINE_EXCEEDED: x\n\nRPC: /xla/Heartbeat\n", "process 0 of this run has not answered"),
        (
            "UNAVAILABLE: Failed to send RPC to coordination service.",
            "process 0 of this run, the coordinator, ",
        ),
        ("INTERNAL: unknown\nmore", "another process of this run has stopped (INTERNAL: unknown)"),
    ],
)
def test_a_dump_of_the_coordination_client_becomes_a_message(status, message):
    found = peers.abort_message("E1117 an earlier line\n" + FATAL + status)
    assert found.startswith(message)
    assert "run the same command again on all hosts" in found
    assert peers.abort_message("E1117 coordination_service.cc:1] " + status) == ""


def test_an_abort_prints_only_the_message_and_other_output_is_kept():
    code = (
        "import ctypes, os, sys, time\n"
        "from training.peers import report_aborts\n"
        "def fail(message):\n"
        "    print('error:', message, file=sys.stderr)\n"
        "    os._exit(1)\n"
        "report_aborts(fail)\n"
        "os.write(2, b'from C++\\n')\n"
        "time.sleep(.6)\n"
        "print('from Python', file=sys.stderr)\n"
        f"os.write(2, {(FATAL + SILENT.format(1)).encode()!r})\n"
        "ctypes.CDLL(None).abort()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stderr
    lines = done.stderr.splitlines()
    assert lines[:2] == ["from C++", "from Python"] and len(lines) == 3
    assert lines[2].startswith("error: process 1 of this run has not answered")


def test_the_last_output_is_printed_at_exit():
    code = (
        "import os\n"
        "from training.peers import report_aborts\n"
        "report_aborts(print)\n"
        "os.write(2, b'last words')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "last words")


def forward(output, path, fail):
    """Let `_forward` copy `output`, which a thread writes to a pipe, to the file `path`."""
    source, sink = os.pipe()

    def produce():
        with open(sink, "wb") as file:
            file.write(output)

    producer = threading.Thread(target=produce)
    producer.start()
    with path.open("wb") as terminal, open(source, "rb"):
        peers._forward(source, terminal.fileno(), fail)
    producer.join()


def test_all_output_is_forwarded_even_if_writes_are_partial(tmp_path, monkeypatch):
    output = b"".join(b"line %d\n" % i for i in range(20_000))  # more than three blocks
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:5000]))
    forward(output, tmp_path / "terminal", pytest.fail)
    assert (tmp_path / "terminal").read_bytes() == output


@pytest.mark.parametrize("first", [30, 60, 100, 200, 250])
def test_a_dump_in_two_blocks_becomes_a_message(first, tmp_path):
    """The first block ends within the dump, after `first` of its bytes."""
    before, dump = b"x" * (2**16 - first), (FATAL + SILENT.format(1)).encode()

    def fail(message):
        raise SystemExit(message)

    with pytest.raises(SystemExit, match=r"process 1 of this run has not answered"):
        forward(before + dump, tmp_path / "terminal", fail)
    assert b"fatal errors" not in (tmp_path / "terminal").read_bytes()


def test_a_process_with_its_own_error_does_not_blame_another_at_once(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(peers, "_failed", threading.Event())
    monkeypatch.setattr(peers.time, "sleep", lambda seconds: events.append("waited"))
    dump = (FATAL + "UNAVAILABLE: Failed to send RPC to coordination service.").encode()
    forward(dump, tmp_path / "terminal", lambda message: events.append("failed"))
    peers.prefer_own_error()
    forward(dump, tmp_path / "terminal", lambda message: events.append("failed"))
    assert events == ["failed", "waited", "failed"]


@pytest.mark.parametrize(
    "address", ["localhost", "localhost:", ":1234", "::1:1234", "[::1]", "[::1:1234", "a:0", "a:x"]
)
def test_a_wrong_address_is_refused(address):
    with pytest.raises(UserError, match="is not HOST:PORT"):
        peers.check_address(address, listen=False)


def test_the_coordinator_needs_a_free_address_of_this_host():
    for address in ("10.0.0.1:80", "node1:65535", "[fd00::1]:1234"):
        peers.check_address(address, listen=False)
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        address = f"127.0.0.1:{used.getsockname()[1]}"
        with pytest.raises(UserError, match=f"cannot listen on {address} .Address already in use"):
            peers.check_address(address, listen=True)
    peers.check_address(address, listen=True)
    with pytest.raises(UserError, match="must be an address of the host of process 0"):
        peers.check_address("192.0.2.1:12345", listen=True)  # an address for documentation


def test_one_usable_address_of_a_host_is_enough(monkeypatch):
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, 0))
        for host in ("192.0.2.1", "127.0.0.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    peers.check_address("node1:12345", listen=True)
    found.pop()
    with pytest.raises(UserError, match="cannot listen on node1:12345"):
        peers.check_address("node1:12345", listen=True)


class Store(dict):
    """JAX's key-value store, in this process."""

    def key_value_set(self, key, value, allow_overwrite=False):
        assert allow_overwrite or key not in self
        self[key] = value

    def blocking_key_value_get(self, key, milliseconds):
        if key not in self:
            time.sleep(0.01)
            raise jax.errors.JaxRuntimeError("DEADLINE_EXCEEDED: GetKeyValue() timed out")
        return self[key]

    def key_value_dir_get(self, folder):
        return [(key, value) for key, value in self.items() if key.startswith(folder)]

    def key_value_delete(self, folder):
        for key, _ in self.key_value_dir_get(f"{folder}/"):
            del self[key]


@pytest.fixture
def store(monkeypatch):
    """Let this process be the first one of three, whose votes are in a local store."""
    store = Store()
    monkeypatch.setattr(hosts, "_store", lambda: store)
    monkeypatch.setattr(hosts, "_rounds", iter(range(9)))
    monkeypatch.setattr(jax, "process_count", lambda: 3)
    monkeypatch.setattr(peers, "NOTICE_SECONDS", 0.1)
    return store


def test_late_processes_are_named_until_they_vote(store, caplog, monkeypatch):
    store |= {"alignax/votes/0/2": "True"}

    def arrive(message, *_):
        logging.getLogger("test").warning(message)
        store["alignax/votes/0/1"] = "False"

    monkeypatch.setattr(hosts.logger, "warning", arrive)
    assert not hosts.all_agree(True)
    (line,) = caplog.messages
    assert re.fullmatch(r"waiting for process 1 of this run: 0 s \(at most 6 hours\)", line)
    store |= {"alignax/votes/1/1": "True", "alignax/votes/1/2": "True"}
    assert hosts.all_agree(True)
    assert not any(key.startswith("alignax/votes/0") for key in store)  # the store does not grow


def test_waiting_for_a_late_process_ends_at_the_limit(store, monkeypatch):
    monkeypatch.setattr(hosts, "WAIT_HOURS", 0)
    with pytest.raises(UserError, match="processes 1, 2 of this run kept the others waiting"):
        hosts.all_agree(True)


def test_a_problem_of_this_host_is_raised_even_if_the_others_do_not_answer(store, monkeypatch):
    monkeypatch.setattr(hosts, "WAIT_HOURS", 0)
    monkeypatch.setattr(peers, "_failed", threading.Event())
    with pytest.raises(UserError, match="no corpus"), hosts.raise_on_all_hosts():
        raise UserError("no corpus")
    assert peers._failed.is_set()


def test_a_lost_connection_names_the_processes_without_a_sign_of_life(monkeypatch):
    monkeypatch.setattr(peers, "BEAT_SECONDS", 0.1)
    store = Store()
    beats = [peers.Beats(store, process, 3) for process in range(2)]
    store["alignax/beats/2"] = "7"  # the last sign of process 2
    time.sleep(0.3)
    monkeypatch.setattr(peers, "_beats", beats[1])
    assert hosts.lost_process(RuntimeError("INTERNAL: another error")) == ""
    message = hosts.lost_process(RuntimeError("UNKNOWN: Gloo all-reduce failed"))
    assert message.startswith("process 2 of this run has not answered for ")
    assert beats[0].missing() == [2]  # process 1 has left because of process 2


def test_a_process_that_cannot_write_to_the_store_misses_the_coordinator(monkeypatch):
    monkeypatch.setattr(peers, "BEAT_SECONDS", 0.1)
    store = Store()

    def unreachable(*_, **__):
        raise jax.errors.JaxRuntimeError("UNAVAILABLE: no answer")

    monkeypatch.setattr(store, "key_value_set", unreachable)
    beats = peers.Beats(store, 1, 3)
    assert beats.missing() == beats.missing() == [0]


def test_processes_that_do_not_connect_end_with_a_message(monkeypatch, caplog):
    monkeypatch.setattr(peers, "NOTICE_SECONDS", 1)
    monkeypatch.setattr(peers, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(peers.logger, "warning", logging.getLogger("test").warning)
    failures = []
    with peers.connecting("localhost:1", failures.append):
        time.sleep(2.2)
    assert caplog.messages == [
        "waiting for all processes of this run to connect to localhost:1: 1 s (at most 2 s)"
    ]
    assert len(failures) == 1 and "did not all connect to localhost:1 within 2 s" in failures[0]
