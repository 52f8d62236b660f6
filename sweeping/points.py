"""The points of a sweep, which are listed in the sweep file or drawn from its search space.

A point is a dictionary of changes to the base config. A sweep file defines one of two functions:
`points()` returns or yields all points, and `space(trial)` defines a search space. `space` draws
the values of one point from an Optuna trial, and later draws may depend on earlier ones:

    trial.suggest_float("optimizer.learning_rate", 1e-4, 1e-2, log=True)
    if trial.suggest_categorical("align", ["global", "local_p"]) == "local_p":
        trial.suggest_int("model.attention.D", 2, 20)

A name that contains a dot is a config field, as in --config.model.attention.D=5. A name without a
dot is an argument of the config file, as in luong2015.py:score=dot. The optional entry "name" of a
point is the label of the point.
"""

import inspect
import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from configs.base import Config
from configs.check import check, check_path
from configs.load import describe, load_config_file, run_file
from errors import UserError
from terminal import clean
from training.workdir import flat

# Characters that the folder of a run must not contain; see training.workdir.check_name.
_NOT_IN_FOLDERS = re.compile(r"[/\\*?\[\]\ud800-\udfff]")
Point = dict[str, bool | int | float | str]


class Sweep(NamedTuple):
    """The content of a sweep file: either a list of points or a search space."""

    points: list[Point] | None  # None if the file defines space(trial)
    space: Callable[[Any], None] | None  # None if the file defines points()


def load_sweep(path: str) -> Sweep:
    """Run a sweep file and return its points or its search space."""
    if not path:
        raise UserError(
            f"--sweep is missing: set it to one of {_provided()}, or write a sweep file "
            "(docs/sweeps.md)"
        )
    if not Path(path).is_file():
        raise UserError(
            f"the sweep file {path} does not exist: correct --sweep, or use one of {_provided()}"
        )
    try:
        found = run_file(path)
        points, space = found.get("points"), found.get("space")
        if bool(points) == bool(space):
            raise UserError(
                f"{path} is not a sweep file: it must define either points() or space(trial); see "
                "docs/sweeps.md"
            )
        return Sweep(_checked(list(points()), path) if points else None, space)
    except UserError:
        raise
    except Exception as error:  # the user's code can raise any exception
        raise UserError(describe(path, error)) from error


def _provided() -> str:
    folder = Path(__file__).parent.parent / "configs" / "sweeps"
    return ", ".join(sorted(f"configs/sweeps/{path.name}" for path in folder.glob("*.py")))


def _checked(points: list[Point], path: str) -> list[Point]:
    if not points:
        raise UserError(f"{path}: points() returned no points: return at least one dictionary")
    named: dict[str, Point] = {}
    for point in points:
        if not isinstance(point, dict):
            raise UserError(f"{path}: a point must be a dictionary of changes, not {point!r}")
        if "seed" in point:
            raise UserError(f"{path}: a point must not set the field seed; use the flag --seeds")
        for name, value in point.items():
            if not isinstance(value, bool | int | float | str):
                raise UserError(
                    f"{path}: the value of {name} is {value!r}, but must be a number, a string, "
                    "True or False"
                )
        if label(point) in named:
            raise UserError(
                f"{path} contains two points with the label {label(point)}: remove one of them, or "
                'give each point a different name, as in {"name": "deep", ...}'
            )
        named[label(point)] = point
    return points


def changes(point: Point) -> Point:
    """Return the changes of a point to the config, that is, the point without its "name"."""
    return {name: value for name, value in point.items() if name != "name"}


def label(point: Point) -> str:
    """Return the label of a point, which is used in tables and as a folder name."""
    short = short_names(list(changes(point)))
    parts = [f"{short[name]}={value}" for name, value in changes(point).items()]
    text = clean(str(point.get("name") or ",".join(parts) or "default"))
    text = _NOT_IN_FOLDERS.sub("-", text)
    if text in (".", ".."):
        text = text.replace(".", "-")
    code = text.encode()
    if len(code) <= 120:  # file systems limit the bytes of a name, not its characters
        return text
    return f"{code[:110].decode(errors='ignore')}-{zlib.crc32(code):08x}"


def run_name(key: str, point: Point) -> str:
    """Return the folder name of a point's runs.

    `key` identifies the point in a study. For a point of `points()`, the label of the point is both
    the key and the folder name. A point drawn from a search space has a number as its key, and its
    folder name consists of the key and the label.
    """
    return label(point) if key == label(point) else f"{key},{label(point)}"


def short_names(names: list[str]) -> dict[str, str]:
    """Map dotted names to their last parts, or to the whole names if the last part is ambiguous."""
    lasts = [name.rpartition(".")[2] for name in names]
    return {
        name: last if lasts.count(last) == 1 else name
        for name, last in zip(names, lasts, strict=True)
    }


def _check_field(config: Config, name: str, value: Any) -> None:
    """Raise a UserError if a config field does not exist or has a different type than `value`."""
    present = check_path(config, name.split("."))
    known = type(present) in _TYPES and type(present) is not type(value)
    if known and not (isinstance(present, float) and type(value) is int):
        raise UserError(f"{name} is {value!r}, but must be {_TYPES[type(present)]}")


_TYPES = {bool: "True or False", int: "an integer", float: "a number", str: "a string"}


def _joined(arguments: Mapping[str, Any]) -> str:
    """Return arguments as they follow the colon in --config."""
    return ",".join(f"{name}={value}" for name, value in arguments.items())


class Base(NamedTuple):
    """The base config of a sweep, which its points modify."""

    file: str  # path of the config file
    arguments: dict[str, str]  # arguments of the config file, as in luong2015.py:score=dot
    overrides: dict[str, Any]  # values of config fields that are set for all points

    def flags(self, point: Point, seed: int) -> list[str]:
        """Return the flags of train.py for a point and a seed."""
        arguments = _joined(self._arguments(point))
        file = f"{self.file}:{arguments}" if arguments else self.file
        fields = {**self._changed_fields(point), "seed": seed}
        return [
            f"--config={file}",
            *(f"--config.{name}={value}" for name, value in fields.items()),
        ]

    def config(self, point: Point, seed: int) -> Config:
        """Return the validated config of a point and a seed."""
        arguments = _joined(self._arguments(point))
        try:
            config = load_config_file(self.file, arguments)
            fields = {**self._changed_fields(point), "seed": seed}
            for name, value in fields.items():
                _check_field(config, name, value)
            config.update_from_flattened_dict(fields)
            check(config)
        except (UserError, KeyError, AttributeError, TypeError, ValueError) as error:
            text = error.args[0] if error.args else error  # str() of a KeyError adds quotes
            message = inspect.cleandoc(str(text)).replace("\n", " ")
            message += self._hint(point, message)
            raise UserError(
                f"the config of the point {label(point)} is invalid: {message}"
            ) from error
        return config

    def _hint(self, point: Point, message: str) -> str:
        """Name the field that an unknown argument of a point stands for, or return ""."""
        for name, value in changes(point).items():
            if message.startswith(f"config argument {f'{name}={value}'!r} is unknown"):
                base = load_config_file(self.file, _joined(self.arguments))
                fields = [field for field in flat(base) if field.rpartition(".")[2] == name]
                return f"; the field of the config is {fields[0]!r}" if fields else ""
        return ""

    def _arguments(self, point: Point) -> dict[str, Any]:
        given = {name: value for name, value in changes(point).items() if "." not in name}
        return {**self.arguments, **given}

    def _changed_fields(self, point: Point) -> dict[str, Any]:
        given = {name: value for name, value in changes(point).items() if "." in name}
        return {**self.overrides, **given}
