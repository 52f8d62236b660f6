"""All tasks and models that are declared in configs/schema."""

import importlib
from typing import Any

from configs.discover import discover
from configs.schema.field import Config, ModelSchema, TaskSchema

TASKS = {schema.name: schema for schema in discover("configs.schema", TaskSchema).values()}
MODELS = {schema.name: schema for schema in discover("configs.schema", ModelSchema).values()}


def model_title(config: Config) -> str:
    """Return what reports call the model of a config."""
    schema = MODELS[config.model.name]
    return schema.title or schema.name


def resolve(path: str) -> Any:
    """Import the object with the path "module:attribute", or the module with the path "module"."""
    module, _, attribute = path.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
