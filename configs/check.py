"""Validates a config against the declarations in configs/schema, before any data is read."""

from collections.abc import Iterator, Sequence
from typing import Any

from ml_collections import ConfigDict

from configs.base import declared_fields
from configs.registry import MODELS, TASKS
from configs.schema import common
from configs.schema.field import Config
from errors import UserError


def check(config: Config) -> None:
    """Raise a UserError that lists every fault of `config`, one per line."""
    faults = list(_invalid_fields(config))
    if not faults:  # relations between invalid values mean nothing
        task, model = TASKS[config.task], MODELS[config.model.name]
        faults = [*model.rules(config), *common.rules(config), *task.rules(config)]
    if faults:
        raise UserError("\n".join(faults))


def check_path(config: Config, path: Sequence[str]) -> Any:
    """Return the value of a field; raise a UserError with the known fields if there is none."""
    node = config
    for depth, name in enumerate(path):
        if not isinstance(node, ConfigDict) or name not in node:
            where = ".".join(["config", *path[:depth]])
            known = ", ".join(node) if isinstance(node, ConfigDict) else "no fields"
            raise UserError(f"{where} has no field {name!r}: it has {known}")
        node = node[name]
    return node


def _invalid_fields(config: Config) -> Iterator[str]:
    name = config.get("model", {}).get("name")
    if name not in MODELS:
        yield (
            f"config.model.name={name!r} is not known: use {', '.join(MODELS)}, and start from "
            "base_config(name) of configs/base.py"
        )
        return
    fields = declared_fields(name)
    present = {*_names(config)}
    if present != {*fields}:
        different = ", ".join(sorted(present ^ {*fields})[:6])
        yield (
            f"config.model.name={name} does not have the fields of this config (different: "
            f"{different}): choose the model by its file in configs/"
        )
        return
    for path, field in fields.items():
        value = check_path(config, path.split("."))
        if field.allows(value):
            continue
        if not field.has_type(value):
            kind = type(field.default).__name__
            yield f"config.{path}={value!r} has a wrong type: it must be of type {kind}"
        elif field.choices:
            yield f"config.{path}={value!r} is not known: use {field.allowed()}"
        else:
            yield f"config.{path}={value} is out of range: it must be {field.allowed()}"


def _names(config: Config, prefix: str = "") -> Iterator[str]:
    for name, value in config.items():
        if hasattr(value, "items"):
            yield from _names(value, f"{prefix}{name}.")
        else:
            yield prefix + name
