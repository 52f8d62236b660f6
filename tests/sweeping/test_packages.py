"""Tests of sweep.py and reproduce.py if the packages that only they need are not installed."""

import subprocess
import sys

import pytest

from tests.programs import ENVIRONMENT, ROOT


def call_without(package, program, *flags):
    """Run a program in a process in which `package` cannot be imported."""
    code = (
        f"import runpy, sys; sys.modules[{package!r}] = None; "
        f"sys.argv = {[program, *flags]!r}; runpy.run_path({program!r}, run_name='__main__')"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("optuna", ["sweep.py"]),
        ("sqlalchemy", ["reproduce.py", "bai2018.jsb"]),
        ("rich", ["sweep.py"]),
    ],
    ids=str,
)
def test_a_missing_package_is_a_user_error(package, command):
    done = call_without(package, *command)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith(f"error: {command[0]} needs {package}")
    assert "pip install" in line


@pytest.mark.parametrize(
    "command", [("sweep.py", "--help"), ("reproduce.py", "--help"), ("reproduce.py", "--list")],
    ids=str,
)  # fmt: skip
def test_help_and_list_do_not_need_the_packages(command):
    done = call_without("optuna", *command)
    assert "Traceback" not in done.stderr and len(done.stdout.splitlines()) > 10
