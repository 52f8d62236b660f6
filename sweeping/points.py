"""What a sweep tries: the points of its file, or a space to draw them from.

A sweep file has one of two functions. `points()` gives dictionaries of changes, one after another;
`space(trial)` draws a change at a time, and may ask what it drew before it draws the next:

    trial.suggest_float("optimizer.learning_rate", 1e-4, 1e-2, log=True)
    if trial.suggest_categorical("align", ["global", "local_p"]) == "local_p":
        trial.suggest_int("model.attention.D", 2, 20)

A name with a dot is a field, as in --config.model.attention.D=5; one without is an argument of the
config file, as in luong2015.py:score=dot. A point's "name" is what it is called by, if it has one.
"""

import inspect
import runpy
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from configs.base import Config
from configs.check import check
from errors import UserError, first_line

Point = dict[str, bool | int | float | str]


class Sweep(NamedTuple):
    """Either is None."""

    points: list[Point] | None
    space: Callable[[Any], None] | None


def load_sweep(path: str) -> Sweep:
    if not path:
        raise UserError(f"--sweep is missing: name a file, one of {_ready()} or your own")
    if not Path(path).is_file():
        raise UserError(f"there is no sweep file {path}: {_ready()} are ready")
    try:
        found = runpy.run_path(path)
        points, space = found.get("points"), found.get("space")
        if bool(points) == bool(space):
            raise UserError(
                f"{path} is no sweep: it wants points() or space(trial), and not both; see "
                "docs/sweeps.md"
            )
        return Sweep(_checked(list(points()), path) if points else None, space)
    except UserError:
        raise
    except Exception as error:  # whatever a file of the user's can raise
        raise UserError(blamed(path, error)) from error


def blamed(path: str, error: Exception) -> str:
    """An error in a file of the user's: where and what."""
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == path]
    where = f", line {lines[-1]}" if lines else ""
    return f"{path}{where}: {type(error).__name__}: {first_line(error)}"


def _ready() -> str:
    return ", ".join(sorted(str(path) for path in Path("configs/sweeps").glob("*.py")))


def _checked(points: list[Point], path: str) -> list[Point]:
    if not points:
        raise UserError(f"{path} has no points")
    named: dict[str, Point] = {}
    for point in points:
        if not isinstance(point, dict):
            raise UserError(f"{path}: a point is a dictionary of changes, not {point!r}")
        if "seed" in point:
            raise UserError(f"{path}: seeds are not a point's: --seeds says how many there are")
        for name, value in point.items():
            if not isinstance(value, bool | int | float | str):
                raise UserError(f"{path}: {name} is {value!r}: numbers, words, True and False go")
        if label(point) in named:
            raise UserError(
                f"{path} has two points called {label(point)}: give each its own name, as "
                '{"name": "deep", ...}'
            )
        named[label(point)] = point
    return points


def changes(point: Point) -> Point:
    """A point without its name."""
    return {name: value for name, value in point.items() if name != "name"}


def label(point: Point) -> str:
    """What a point is called, in tables and as a folder."""
    short = short_names(list(changes(point)))
    parts = [f"{short[name]}={value}" for name, value in changes(point).items()]
    text = str(point.get("name") or ",".join(parts) or "default").replace("/", "-")
    return text if len(text) <= 120 else f"{text[:110]}-{zlib.crc32(text.encode()):08x}"


def run_name(key: str, point: Point) -> str:
    """The folder of a point's runs; points that were drawn have a number as their key."""
    return label(point) if key == label(point) else f"{key},{label(point)}"


def short_names(names: list[str]) -> dict[str, str]:
    """The last parts of dotted names, where that leaves them different."""
    lasts = [name.rpartition(".")[2] for name in names]
    return {
        name: last if lasts.count(last) == 1 else name
        for name, last in zip(names, lasts, strict=True)
    }


def _check_field(config: Config, name: str, value: Any) -> None:
    node: Any = config
    path = name.split(".")
    for depth, part in enumerate(path):
        if not isinstance(node, ConfigDict) or part not in node:
            where = ".".join(["config", *path[:depth]])
            known = ", ".join(node) if isinstance(node, ConfigDict) else "no fields"
            raise UserError(f"{where} has no field {part!r}: it has {known}")
        node = node[part]
    known = type(node) in _ARTICLES and type(node) is not type(value)
    if known and not (isinstance(node, float) and type(value) is int):
        raise UserError(f"{name} is {value!r}, and should be {_ARTICLES[type(node)]}")


_ARTICLES = {bool: "True or False", int: "an integer", float: "a number", str: "a word"}


class Base(NamedTuple):
    """The config that points change: its file and arguments, and the overrides behind them."""

    file: str
    arguments: dict[str, str]
    overrides: dict[str, Any]

    def flags(self, point: Point, seed: int) -> list[str]:
        """What train.py is called with."""
        arguments = ",".join(f"{name}={value}" for name, value in self._arguments(point).items())
        file = f"{self.file}:{arguments}" if arguments else self.file
        fields = {**self._changed(point), "seed": seed}
        return [
            f"--config={file}",
            *(f"--config.{name}={value}" for name, value in fields.items()),
        ]

    def config(self, point: Point, seed: int) -> Config:
        """The same as a checked config."""
        arguments = ",".join(f"{name}={value}" for name, value in self._arguments(point).items())
        try:
            config = runpy.run_path(self.file)["get_config"](arguments)
            fields = {**self._changed(point), "seed": seed}
            for name, value in fields.items():
                _check_field(config, name, value)
            config.update_from_flattened_dict(fields)
            check(config)
        except (UserError, KeyError, AttributeError, TypeError, ValueError) as error:
            text = error.args[0] if error.args else error  # a KeyError's str is in quotes
            message = inspect.cleandoc(str(text)).replace("\n", " ")
            raise UserError(f"the point {label(point)} cannot be built: {message}") from error
        return config

    def _arguments(self, point: Point) -> dict[str, Any]:
        given = {name: value for name, value in changes(point).items() if "." not in name}
        return {**self.arguments, **given}

    def _changed(self, point: Point) -> dict[str, Any]:
        given = {name: value for name, value in changes(point).items() if "." in name}
        return {**self.overrides, **given}
