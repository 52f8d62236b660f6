"""Validation of a config against the declarations in configs/schema, before any data is read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from configs.base import declared_fields
from configs.registry import MODELS, TASKS
from configs.schema import common
from configs.schema.field import LARGEST, Config
from errors import UserError, suggest


def check(config: Config) -> None:
    """Raise a UserError that lists every mistake in `config`, one per line."""
    mistakes = list(_invalid_fields(config))
    if not mistakes:  # the rules below compare fields, so each value must be valid first
        task, model = TASKS[config.task], MODELS[config.model.name]
        mistakes = [*model.rules(config), *common.rules(config), *task.rules(config)]
    if mistakes:
        raise UserError("\n".join(mistakes))


def check_path(config: Config, path: Sequence[str]) -> Any:
    """Return the value of a field; for an unknown field, raise a UserError that names known fields.

    `path` contains the parts of the field's dotted name.
    """
    node = config
    for depth, name in enumerate(path):
        if not isinstance(node, ConfigDict) or name not in node:
            where = ".".join(["config", *path[:depth]])
            fields = list(node) if isinstance(node, ConfigDict) else []
            advice = suggest(name, fields)
            known = [f"config.{full}" for full in _names(config)]
            elsewhere = [full for full in known if full.endswith(f".{path[-1]}")]
            is_last = depth == len(path) - 1
            if (is_last and elsewhere) or not advice:  # look in other sections
                advice = suggest(path[-1], elsewhere or known) or advice
            has = f"{where} has {', '.join(fields) or 'no fields'}"
            raise UserError(f"{where} has no field {name!r}: {advice}{has}")
        node = node[name]
    return node


def changed_decode(config: Config, changes: Mapping[str, Any]) -> Config:
    """Return config.decode with changed fields, after checking them."""
    config = config.copy_and_resolve_references()
    for name, value in changes.items():
        check_path(config, ["decode", name])
        try:
            config.decode[name] = value
        except TypeError:
            kind = type(config.decode[name]).__name__
            raise UserError(
                f"config.decode.{name}={value!r} has the wrong type: it must be of type {kind}"
            ) from None
    check(config)
    return config.decode


def _invalid_fields(config: Config) -> Iterator[str]:
    name = config.get("model", {}).get("name")
    if name not in MODELS:
        yield (
            f"config.model.name={name!r} is unknown: build the config with base_config(name) of "
            f"configs/base.py, where name is one of {', '.join(MODELS)}"
        )
        return
    fields = declared_fields(name)
    present = {*_names(config)}
    if present != {*fields}:
        different = ", ".join(sorted(present ^ {*fields})[:6])
        yield (
            f"config.model.name={name} does not match the fields of this config (differences: "
            f"{different}): do not set model.name; choose a config file in configs/ instead"
        )
        return
    for path, field in fields.items():
        value = check_path(config, path.split("."))
        if field.allows(value):
            continue
        if not field.has_type(value):
            kind = type(field.default).__name__
            yield f"config.{path}={value!r} has the wrong type: it must be of type {kind}"
        elif field.choices:
            similar = suggest(value, field.choices)
            yield f"config.{path}={value!r} is unknown: {similar}use one of {field.allowed()}"
        else:
            allowed = field.allowed() or f"at most {LARGEST}"
            yield f"config.{path}={value} is out of range: it must be {allowed}"


def _names(config: Config, prefix: str = "") -> Iterator[str]:
    for name, value in config.items():
        if hasattr(value, "items"):
            yield from _names(value, f"{prefix}{name}.")
        else:
            yield prefix + name
