"""The database that stores a study: its URL, whose password is never shown, and its errors."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DatabaseError, OperationalError, SQLAlchemyError

from errors import UserError, first_line
from sweeping.packages import check_packages
from sweeping.settings import STORAGE_EXAMPLE, STORAGE_VARIABLE

_VARIABLE_PREFIX = "env:"
CONNECTION_ERRORS = (StorageInternalError, SQLAlchemyError)  # the database may answer later
# Parameters of PostgreSQL URLs that messages may contain; all others could be part of a password.
_SHOWN = {"host", "port", "user", "dbname", "sslmode", "connect_timeout", "application_name"}


def file_url(path: Path) -> URL:
    """Return the URL of a SQLite file, whose path may contain any characters."""
    return URL.create("sqlite", database=str(path.absolute()))


def resolve_variable(storage: str) -> str:
    """Return the value of the environment variable NAME if --storage is env:NAME."""
    if not storage.startswith(_VARIABLE_PREFIX):
        return storage
    name = storage.removeprefix(_VARIABLE_PREFIX)
    if not os.environ.get(name):
        raise UserError(
            f"--storage={storage}: the environment variable {name} is not set: set it to "
            f"{STORAGE_EXAMPLE}, and let SLURM pass it to its jobs (sbatch --export=ALL)"
        )
    return os.environ[name]


@contextlib.contextmanager
def storage_variable(storage: str) -> Iterator[str]:
    """Store a URL in the environment, and yield the value of --storage that refers to it.

    Command lines can be read by all users of a machine, but the environment only by its user.
    """
    before = os.environ.get(STORAGE_VARIABLE)
    os.environ[STORAGE_VARIABLE] = storage
    try:
        yield _VARIABLE_PREFIX + STORAGE_VARIABLE
    finally:
        del os.environ[STORAGE_VARIABLE]
        if before is not None:
            os.environ[STORAGE_VARIABLE] = before


def parse_storage(storage: str | URL) -> URL:
    """Parse the value of --storage; select psycopg2 as the driver for PostgreSQL."""
    url = storage if isinstance(storage, URL) else _parse_text(resolve_variable(storage))
    kind = url.get_backend_name()
    if kind not in ("sqlite", "postgresql") or (kind == "sqlite" and not url.database):
        raise UserError(
            f"--storage={shown(url)} is not a supported database: leave --storage out to use a "
            f"file in --workdir, or set it to {STORAGE_EXAMPLE}"
        )
    if kind == "sqlite":
        return url
    check_packages("--storage=postgresql://...", "psycopg2")
    return url.set(drivername="postgresql+psycopg2")


def _parse_text(text: str) -> URL:
    """Parse a database URL; no message contains its text, any part of which may be a password."""
    try:
        url = make_url(text)
    except (SQLAlchemyError, ValueError):  # ValueError: the port is not a number
        url = None
    # An @ that does not separate the user from the host belongs to a password, whose second part
    # make_url takes for the host or the database. SQLite has no passwords, only paths.
    sqlite = url is not None and url.get_backend_name() == "sqlite"
    if url is None or not (sqlite or text.count("@") == (url.username is not None)):
        raise UserError(
            f"--storage is not a valid database URL: write it as {STORAGE_EXAMPLE}, with a number "
            "as the port, if there is one, and with %40 for each @ in a password, %3A for :, %2F "
            "for / and %25 for %; or leave the password out and store it in ~/.pgpass"
        )
    return url


def has_password(url: URL) -> bool:
    """Return whether a URL contains a password, also as a parameter, as in ?password=..."""
    return bool(url.password or any("password" in name for name in url.query))


def shown(url: URL) -> str:
    """Return a URL for messages: the password is replaced by ***, and the parameters by ...."""
    text = url.set(query={}).render_as_string(hide_password=True)
    return f"{text}?..." if url.query else text


def open_storage(url: URL, grace: int) -> RDBStorage:
    """Open the database of a study and create its tables if they do not exist."""
    options: dict[str, Any] = {"pool_pre_ping": True}  # reconnect if the database server restarted
    if url.get_backend_name() == "sqlite":
        options["connect_args"] = {"timeout": 60}
    # Optuna formats the URL with str.format.
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    return RDBStorage(
        text, engine_kwargs=options, heartbeat_interval=max(1, grace // 6), grace_period=grace
    )


@contextlib.contextmanager
def explained(url: URL, retried: bool = False) -> Iterator[None]:
    """Convert the errors of a missing, unreachable or damaged database to UserErrors.

    With `retried`, CONNECTION_ERRORS stay as they are, because the caller repeats the call.
    """
    try:
        yield
    except (
        AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError,
        *CONNECTION_ERRORS,
    ) as error:  # fmt: skip
        if retried and isinstance(error, CONNECTION_ERRORS):
            raise
        raise unusable(url, error) from None  # the cause may contain the password


def is_damaged(error: Exception) -> bool:
    """Return whether a database error will remain if the same call is repeated later."""
    cause = error.__cause__ or error
    if isinstance(cause, OperationalError):
        return "no such table" in str(cause) or "no such column" in str(cause)
    return isinstance(cause, DatabaseError)


def unusable(url: URL, error: Exception) -> UserError:
    """Return the UserError for a database error; its message does not contain the password."""
    reason = first_line(error.__cause__ or error)
    if any(secret in reason for secret in _secrets(url)):
        reason = type(error).__name__
    if url.get_backend_name() == "sqlite":
        return UserError(
            f"cannot use the database {url.database} ({reason}): make the file and its folder "
            "writable, or move the file away if it is damaged; the same command then queues all "
            "runs again, and does not repeat the training of complete runs"
        )
    return UserError(
        f"cannot open the database --storage={shown(url)} ({reason}): check that the server is "
        "running, and that the address, the user and the password are correct; the same command "
        "continues the sweep"
    )


def _secrets(url: URL) -> set[str]:
    """Return all parts of a URL that may belong to a password, also in percent-encoding."""
    found = [str(url.password or "")]
    for name, values in url.normalized_query.items():
        found += [] if name in _SHOWN else [name, *values]
    return {form for text in found if text for form in (text, quote(text), quote_plus(text))}
