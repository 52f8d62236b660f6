"""Tests of lab.py as a user runs it."""

import re
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from errors import UserError
from tests.programs import ENVIRONMENT, ROOT, call


@pytest.mark.slow
def test_the_lab_answers_until_it_is_interrupted(trained_run):
    _, workdir, _ = trained_run
    process = subprocess.Popen(
        [sys.executable, "lab.py", f"--runs={workdir}", "--port=0"], cwd=ROOT, text=True,
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout
        line = process.stdout.readline()
        (address,) = re.findall(r"Open (http://127\.0\.0\.1:\d+) in a browser", line)
        assert "Alignax lab" in httpx.get(address, timeout=60).text
        body = {"run": str(workdir), "text": "May 3, 2020"}
        answer = httpx.post(f"{address}/api/translate", json=body, timeout=300)
        assert answer.status_code == 200 and answer.json()["hypotheses"]
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130 and "Traceback" not in messages
    assert "May" not in messages and "POST" not in messages  # requests are not logged


@pytest.mark.slow
def test_a_lab_in_the_background_ends_at_an_interrupt_while_it_compiles(trained_run, tmp_path):
    """Shells start programs in the background with SIGINT ignored."""
    environment = ENVIRONMENT | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path)}  # nothing is compiled
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "lab.py",
         f"--runs={trained_run[1]}", "--port=0"],
        cwd=ROOT, text=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout
        (address,) = re.findall(r"Open (http\S+) in a browser", process.stdout.readline())
        httpx.get(address, timeout=60)  # the server handles signals, and the models are compiled
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0 and "Fatal" not in messages, messages


def test_mistakes_on_the_command_line(trained_run, tmp_path):
    workdir = str(trained_run[1])
    for flags, fact in (
        ([], "--runs is missing"),
        (["--runs=,"], "names no run"),
        ([f"--runs={tmp_path}"], "list folders that train.py created"),
        ([f"--runs={tmp_path}/*"], "matches no file or folder"),
        ([f"--runs={workdir}", "--port=70000"], "port"),
    ):
        done = call("lab.py", *flags, check=False)
        assert done.returncode == 1 and fact in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


def test_missing_packages_have_one_message(trained_run):
    code = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in ('starlette', 'uvicorn') "
        "else find(name, *rest)\n"
        "import lab, program\n"
        f"sys.argv = ['lab.py', '--runs={trained_run[1]}']\n"
        "program.run(lab.main)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 1
    assert done.stderr == (
        "error: lab.py needs starlette and uvicorn, which are not installed: "
        "pip install -r requirements.txt\n"
    )


def test_the_printed_address_can_be_opened_in_a_browser():
    from serving.server import browser_name

    assert browser_name("127.0.0.1") == "127.0.0.1" and browser_name("::1") == "[::1]"
    assert browser_name("0.0.0.0") == browser_name("::") == socket.gethostname()


def test_a_port_must_be_free():
    from serving.server import listen

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"port {port} .*: set --port to a free port"):
            listen("127.0.0.1", port)
    with pytest.raises(UserError, match=r"cannot listen on nowhere\.invalid"):
        listen("nowhere.invalid", 0)
