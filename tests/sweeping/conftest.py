"""Fixtures for the databases of studies: a SQLite file and a PostgreSQL server."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def server_programs():
    """Return the folder of PostgreSQL's server programs, which is not on Debian's PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return folders[-1] if folders else None


class Server:
    """A PostgreSQL server that listens only on a socket in a temporary folder."""

    def __init__(self, programs):
        self._programs, self._folder = programs, Path(tempfile.mkdtemp(prefix="pg"))
        self._user = {}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root, so use its own account
            shutil.chown(self._folder, "postgres")
            self._user = {"user": "postgres"}
        self._call("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync")
        options = f"-k {self._folder} -c listen_addresses='' -c fsync=off"
        self._call("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)
        self.url = f"postgresql://postgres@/postgres?host={self._folder}"

    def _call(self, program, *arguments):
        command = [self._programs / program, *arguments]
        subprocess.run(
            command, cwd=self._folder, check=True, stdout=subprocess.DEVNULL, **self._user
        )

    def stop(self):
        self._call("pg_ctl", "stop", "-D", "data", "-m", "immediate")
        shutil.rmtree(self._folder)


@pytest.fixture(scope="session")
def postgresql():
    programs = server_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed")
    server = Server(programs)
    yield server.url
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return request.getfixturevalue("postgresql")
