"""Load config files, and report any exception in a user's file as one error message."""

import inspect
import re
import runpy
import traceback
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from configs.base import declared_fields
from configs.registry import MODELS
from configs.schema.field import Config
from errors import UserError, suggest


def load_config_file(file: str, arguments: str = "") -> Config:
    """Return the config that `get_config(arguments)` in `file` returns.

    `get_config` may have no parameters if `arguments` is empty.
    """
    get_config = _read(file).get("get_config")
    if not callable(get_config):
        raise UserError(
            f"{file} has no function get_config: define one, as in configs/luong2015.py"
        )
    takes_arguments = bool(inspect.signature(get_config).parameters)
    if arguments and not takes_arguments:
        raise UserError(
            f"get_config of {file} has no parameter, but the arguments {arguments!r} are given: "
            "omit the arguments, or define get_config(arguments)"
        )
    try:
        config = get_config(arguments) if takes_arguments else get_config()
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # a user's config file can raise any exception
        raise UserError(describe(file, error)) from error
    if not isinstance(config, ConfigDict):
        raise UserError(
            f"{file}: get_config must return a ConfigDict, not {type(config).__name__}: start from "
            "base_config of configs/base.py"
        )
    return config


def _read(file: str) -> dict[str, Any]:
    if not Path(file).is_file():
        start, comma, rest = file.partition(",")
        if comma and Path(start).is_file():
            raise UserError(
                f"config file {file} does not exist: write a colon between the file and its "
                f"arguments, as in {start}:{rest}"
            )
        present = sorted(path.name for path in Path(__file__).parent.glob("*[0-9].py"))
        name = f"{Path(file).stem}.py"
        hint = suggest(name, [name] if name in present else present) if Path(file).stem else ""
        hint = re.sub(r"(\w+\.py)", r"configs/\1", hint)
        raise UserError(
            f"config file {file} does not exist: {hint}correct its path, or use one of the files "
            f"in configs/: {', '.join(present)}"
        )
    return run_file(file)


def run_file(file: str) -> dict[str, Any]:
    """Run a user's Python file and return its global variables."""
    try:
        return runpy.run_path(file)
    except UserError:
        raise
    except SyntaxError as error:
        raise UserError(f"{error.filename}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise UserError(describe(file, error)) from error


# Messages of ml_collections about unknown fields, with and without a suggestion.
_MISSPELT = re.compile(r'Did you mean "(\w+)" instead of "(\w+)"\?')
_UNKNOWN = re.compile(r'Key "(\w+)" does not exist')


def describe(file: str, error: BaseException) -> str:
    """Return a message that contains `error` and the line of `file` that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    where = f"{file}, line {lines[-1]}" if lines else file
    # Read a KeyError's message from args, because str() would quote and escape the message.
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if found := _MISSPELT.search(message):
        return f"{where}: there is no field {found[2]!r}: did you mean {found[1]}?"
    if found := _UNKNOWN.search(message):
        hint = suggest(found[1], _every_field()).strip()
        return f"{where}: there is no field {found[1]!r}" + (f": {hint}" if hint else "")
    return f"{where}: {type(error).__name__}: {' '.join(message.split())[:300]}"


def _every_field() -> list[str]:
    """Return the names of the fields of all models, such as config.data.batch_size."""
    names = (f"config.{name}" for model in MODELS for name in declared_fields(model))
    return list(dict.fromkeys(names))
