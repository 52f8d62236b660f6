"""All tasks and models that are declared in configs/schema."""

import importlib
from typing import Any

from configs.discover import discover
from configs.schema.field import ModelSchema, TaskSchema

TASKS = {schema.name: schema for schema in discover("configs.schema", TaskSchema).values()}
MODELS = {schema.name: schema for schema in discover("configs.schema", ModelSchema).values()}


def resolve(path: str) -> Any:
    """Import the object with the path "module:attribute", or the module with the path "module"."""
    module, _, attribute = path.partition(":")
    loaded = importlib.import_module(module)
    return getattr(loaded, attribute) if attribute else loaded
