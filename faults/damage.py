"""Ways to damage a file: lost or changed bytes, and JSON values of a wrong type."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Damage = Callable[[Path], object]


def _flip_bit(path: Path) -> None:
    """Flip one bit; the file name determines its position, so a case can be repeated."""
    content = bytearray(path.read_bytes())
    if content:
        bit = random.Random(path.name).randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


DAMAGES: dict[str, Damage] = {
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "flipped bit": _flip_bit,
    "removed": Path.unlink,
}
# JSON texts that replace a whole file. The last one exceeds the recursion limit of parsers.
_VALUES = ("[]", "{}", "1", "null", '"text"', "[" * 100_000 + "]" * 100_000)


def json_damages(path: Path) -> Iterator[tuple[str, Damage]]:
    """Yield the name and the function of each wrong type for a JSON or JSON Lines file.

    Yield nothing if the file is not JSON.
    """
    first, _, rest = _lines(path)
    try:
        value = json.loads(first)
    except ValueError:
        return
    if not isinstance(value, dict | list):
        return
    for text in _VALUES:
        name = text if len(text) < 10 else "nested list"
        yield f"JSON {name}", lambda path, text=text: path.write_text(text + rest)
    record = value[0] if isinstance(value, list) and value else value
    # Orbax writes one field per array, and all of them are alike: eight of them are enough.
    for field in list(record)[:8] if isinstance(record, dict) else ():
        yield f"JSON type of {field}", lambda path, field=field: _change_type(path, field)


def _lines(path: Path) -> tuple[str, str, str]:
    """Return the JSON text to damage, its separator and the rest: JSON Lines have one per line."""
    text = path.read_bytes().decode("utf-8", errors="replace")
    return text.partition("\n") if path.suffix == ".jsonl" else (text, "", "")


def _change_type(path: Path, field: str) -> None:
    first, separator, rest = _lines(path)
    value = json.loads(first)
    record = value[0] if isinstance(value, list) else value
    record[field] = _another_type(record[field])
    path.write_text(json.dumps(value) + separator + rest)


def _another_type(value: Any) -> Any:
    if isinstance(value, dict):
        return [1]
    if isinstance(value, list):
        return {"a": 1}
    return 1 if isinstance(value, str) else "text"
