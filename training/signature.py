"""Signatures of config.json, which tell the configs of this user from those of other people.

A workdir may come from anyone, and its config.json names a corpus and folders to read and write.
train.py therefore signs config.json with a key that only this user can read. The file `signature`
also contains a digest, which detects a damaged config.json on every machine.
"""

import contextlib
import errno
import hashlib
import hmac
import logging
import os
import secrets
from pathlib import Path

from configs.base import Config
from errors import UserError
from reading import DamagedFile, read_bytes, read_json
from writing import write_bytes, write_json

logger = logging.getLogger("alignax")
KEY_BYTES = 32
# The fields that decide which files are opened and which code reads them.
CORPUS_FIELDS = ("corpus", "dir", "cache")
_KINDS = {"sha256": str, "hmac": str}


def sign(workdir: Path, content: bytes) -> None:
    """Write the signature of `content`, that of config.json; log a warning if there is no key.

    The content is not read from the file, which somebody else may have replaced meanwhile.
    """
    try:
        code = _hmac(content, _create_key())
    except (OSError, UserError) as error:
        logger.warning(
            "config.json is not signed, because the key %s cannot be used (%s): set "
            "XDG_CONFIG_HOME to a folder of yours, or evaluate this run with --trust_workdir",
            _key_file(), getattr(error, "strerror", error),
        )  # fmt: skip
        code = ""
    signature = {"sha256": hashlib.sha256(content).hexdigest(), "hmac": code}
    write_json(workdir / "signature", signature)


def is_signed(workdir: Path, content: bytes) -> bool:
    """Return whether the user of this program has signed `content`, that of config.json."""
    try:
        signature = read_json(workdir / "signature", _KINDS)
        key = _key()
    except UserError:  # the signature or the key is missing, unreadable or damaged
        return False
    expected = _hmac(content, key)
    return hmac.compare_digest(signature["hmac"].encode(errors="replace"), expected.encode())


def check_digest(workdir: Path, content: bytes) -> None:
    """Raise UserError if `content`, that of config.json, is not what train.py wrote."""
    path = workdir / "signature"
    if path.exists() and read_json(path, _KINDS)["sha256"] != hashlib.sha256(content).hexdigest():
        raise DamagedFile(
            f"{workdir}/config.json was changed after train.py wrote it (its SHA-256 is not the "
            f"one in {path})",
            f"restore it from a backup, or delete {path} if the change is intended",
        )


def check_trust(workdir: Path, content: bytes, config: Config) -> None:
    """Raise UserError if this user has not signed `content`, from which `config` was parsed.

    Its values decide which files are read, which library reads them, and where files are written.
    """
    if is_signed(workdir, content):
        return
    values = ", ".join(f"data.{name}={config.data[name]!r}" for name in CORPUS_FIELDS)
    raise UserError(
        f"{workdir}/config.json has no signature of yours: another user, another machine or an "
        "older version trained this run, or its file `signature` was deleted. config.json names "
        f"{values}. If you trust these values, "
        "add --trust_workdir; running the train.py command of the run again also signs it"
    )


def _hmac(content: bytes, key: bytes) -> str:
    return hmac.new(key, content, "sha256").hexdigest()


def _key_file() -> Path:
    """Return the path of the key, which is relative only if this user has no home folder."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():  # the XDG specification says that relative paths are ignored
        folder = Path(os.path.expanduser("~/.config"))
    return folder / "alignax" / "key"


def _key() -> bytes:
    path = _key_file()
    if not path.is_absolute():  # a key in the current folder could come from someone else
        raise UserError("this user has no home folder")
    key = read_bytes(path, "correct its permissions")
    if len(key) != KEY_BYTES:
        raise DamagedFile(
            f"{path} is corrupt ({len(key)} bytes instead of {KEY_BYTES})",
            "delete it; runs that it signed will need --trust_workdir",
        )
    return key


def _create_key() -> bytes:
    """Return the key of this user, and create it if it does not exist."""
    path = _key_file()
    if not path.is_absolute():
        raise OSError(errno.ENOENT, "this user has no home folder")
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = path.with_name(f"key.{secrets.token_hex(4)}")
        write_bytes(scratch, secrets.token_bytes(KEY_BYTES), mode=0o600)
        try:
            # Unlike a rename, a link never replaces the key of a process that started meanwhile.
            with contextlib.suppress(FileExistsError):
                os.link(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)
    return _key()
