"""A lock that is shared by all threads, processes and machines that use one database."""

import contextlib
import fcntl
import threading
import zlib
from collections.abc import Iterator

import sqlalchemy
from sqlalchemy.engine import URL


class Mutex:
    """A file lock next to a SQLite database, or an advisory lock of a PostgreSQL server.

    Either lock is released when the process that holds it dies.
    """

    def __init__(self, url: URL, name: str):
        self._url, self._key = url, {"key": zlib.crc32(name.encode())}
        # Threads of this process wait for this lock, so that only one opens a connection.
        self._thread_lock = threading.Lock()
        # Without a connection pool, closing a connection after an error releases the advisory lock.
        self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock inside a `with` block."""
        sqlite = self._url.get_backend_name() == "sqlite"
        with self._thread_lock, self._lock_file() if sqlite else self._lock_server():
            yield

    @contextlib.contextmanager
    def _lock_file(self) -> Iterator[None]:
        with open(f"{self._url.database}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _lock_server(self) -> Iterator[None]:
        with self._engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), self._key)
            yield  # closing the connection at the end of `with` releases the lock
