"""Default configs, built from the declarations in configs/schema."""

from typing import Any

from ml_collections import ConfigDict

from configs.registry import MODELS, TASKS
from configs.schema import common
from configs.schema.common import LOWER_IS_BETTER
from configs.schema.field import Config, Field, Fields, flatten
from errors import UserError

__all__ = ["LOWER_IS_BETTER", "Config", "base_config", "choices", "declared_fields"]


def base_config(model: str = "seq2seq") -> Config:
    """Return the default config of a model and its task, which config files then change."""
    config = ConfigDict(_defaults(_sections(model)))
    return config.lock()  # a locked config rejects misspelled fields instead of adding them


def declared_fields(model: str) -> dict[str, Field]:
    """Return the declarations of all fields of a model's config, by dotted name."""
    return flatten(_sections(model))


def choices(model: str, name: str, first: str = "") -> tuple[str, ...]:
    """Return the allowed values of a field, with `first` (default: the field's default) first."""
    field = declared_fields(model)[name]
    leading = first or str(field.default)
    if leading not in field.choices:
        raise ValueError(
            f"{leading!r} is not an allowed value of {name} ({model}): use one of "
            f"{', '.join(field.choices)}"
        )
    return (leading, *(value for value in field.choices if value != leading))


def _sections(model: str) -> Fields:
    if model not in MODELS:
        raise UserError(f"there is no model {model!r}: use {', '.join(MODELS)}")
    schema = MODELS[model]
    task = TASKS[schema.task]
    return {
        "task": Field(task.name, "Name of the task, set by the model.", (task.name,)),
        "seed": common.SEED,
        "data": {**common.DATA, **task.data},
        "model": {"name": Field(model, "Name of the model, set by the config file.", (model,)),
                  **schema.fields},
        "optimizer": common.OPTIMIZER,
        "train": {**common.TRAIN, **task.train},
        "mesh": common.MESH,
        **task.sections,
    }  # fmt: skip


def _defaults(fields: Fields) -> dict[str, Any]:
    return {
        name: field.default if isinstance(field, Field) else _defaults(field)
        for name, field in fields.items()
    }
