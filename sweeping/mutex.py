"""One at a time, of all threads, processes and machines that share a database."""

import contextlib
import fcntl
import threading
import zlib
from collections.abc import Iterator

import sqlalchemy
from sqlalchemy.engine import URL


class Mutex:
    """A lock beside a SQLite file, or an advisory lock of a PostgreSQL server; either is free again
    when its holder dies."""

    def __init__(self, url: URL, name: str):
        self._url, self._key = url, {"key": zlib.crc32(name.encode())}
        self._here = threading.Lock()  # or each waiting thread would hold a connection
        # No pool: a connection that is kept would keep a lock that an error left behind.
        self._engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        sqlite = self._url.get_backend_name() == "sqlite"
        with self._here, self._file() if sqlite else self._server():
            yield

    @contextlib.contextmanager
    def _file(self) -> Iterator[None]:
        with open(f"{self._url.database}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def _server(self) -> Iterator[None]:
        with self._engine.connect() as connection:
            connection.execute(sqlalchemy.text("SELECT pg_advisory_lock(:key)"), self._key)
            yield  # the lock ends with the connection
