"""The manifest of a prepared corpus: sizes and digests, which reveal damaged files.

Sizes are compared whenever a corpus is opened. Digests are compared once per machine: verified.json
stores the inodes and times for which they were right, and the names of the machines, so that
opening a large corpus again reads none of its values.
"""

import contextlib
import hashlib
import json
import logging
import os
import platform
import time
from pathlib import Path
from typing import Any

from reading import DamagedFile, digest, matching, read_json, reading
from writing import write_text

logger = logging.getLogger("alignax")
MANIFEST, VERIFIED = "manifest.json", "verified.json"
_READABLE = "make it readable, or set data.cache to another folder"
_KIND = {"cache_key": dict, "files": {str: {"size": int, "sha256": str}}, "digest": str}
_LARGE = 1 << 30  # verifying more bytes than this takes seconds, so it is logged
# File times advance in ticks of up to 10 ms. A file that changes again in the same tick keeps its
# times, so its content is read only when the last tick of its times is over.
_TICK_NS = 20_000_000

State = list[int]  # size, time of the last change of content, time of any change, inode


def write_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Write manifest.json with `content` and the digest of every file, and flush all files to disk.

    `content` must have the entry "cache_key", and values that JSON can represent exactly.
    """
    files, states = {}, {path.name: _state(path) for path in sorted(folder.iterdir())}
    _await_tick(states)
    for name, state in states.items():
        with (folder / name).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            files[name] = {"size": state[0], "sha256": sha256}
            os.fsync(file.fileno())
    content = content | {"files": files}
    content["digest"] = _digest(content)
    write_text(folder / MANIFEST, json.dumps(content, indent=2) + "\n")
    _remember(folder, content["digest"], states)


def damage(folder: Path, cache_key: dict[str, Any]) -> str:
    """Return what is wrong with the first damaged file of a prepared corpus; "": nothing."""
    try:
        _check(folder, cache_key)
    except DamagedFile as error:
        return error.problem
    return ""


def _check(folder: Path, cache_key: dict[str, Any]) -> None:
    path = folder / MANIFEST
    manifest = read_json(path, _KIND, _READABLE)
    stored = manifest.pop("digest")
    with reading(path, _READABLE):
        if stored != _digest(manifest):
            raise ValueError("its content does not match its digest")
        if manifest["cache_key"] != cache_key:
            raise ValueError("it belongs to another corpus")
    states, files = {}, manifest["files"]
    for name, entry in files.items():
        with reading(folder / name, _READABLE):
            states[name] = _state(folder / name)
            if states[name][0] != entry["size"]:
                raise ValueError(f"it has {states[name][0]:,} bytes instead of {entry['size']:,}")
    if platform.node() in _machines(folder, stored, states):
        return
    size = sum(entry["size"] for entry in files.values())
    if size > _LARGE:
        logger.info("verifying the prepared corpus %s once (%.1f GB)", folder, size / 1e9)
    _await_tick(states)
    for name, entry in files.items():
        if digest(folder / name, _READABLE) != entry["sha256"]:
            with reading(folder / name, _READABLE):
                raise ValueError(f"its SHA-256 differs from that in {MANIFEST}")
    _remember(folder, stored, states)


def _state(path: Path) -> State:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _await_tick(states: dict[str, State]) -> None:
    """Wait until a change of any of these files will change its times."""
    newest = max((max(state[1:3]) for state in states.values()), default=0)
    time.sleep(min(max(0, newest + _TICK_NS - time.time_ns()), _TICK_NS) / 1e9)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _machines(folder: Path, stored: str, states: dict[str, State]) -> list[str]:
    """Return the names of the machines that have compared the digests of the files as they are."""
    kind = {"digest": str, "files": dict, "machines": [str]}
    try:
        found = matching(json.loads((folder / VERIFIED).read_bytes()), kind)
    except (OSError, ValueError, RecursionError):  # without this file, all digests are compared
        return []
    same = (found["digest"], found["files"]) == (stored, states)
    return found["machines"] if same else []


def _remember(folder: Path, stored: str, states: dict[str, State]) -> None:
    machines = [*_machines(folder, stored, states), platform.node()]
    with contextlib.suppress(OSError):  # a cache may be read-only
        content = {"digest": stored, "files": states, "machines": machines}
        write_text(folder / VERIFIED, json.dumps(content) + "\n")
