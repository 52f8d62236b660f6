"""Builds the task and the model that a config names, as configs/schema declares them."""

from pathlib import Path
from typing import Any

from configs.base import Config
from configs.registry import MODELS, TASKS, resolve


def make_task(config: Config, vocabularies: Path | None = None) -> Any:
    """Return the config's task on its corpus.

    With the folder of `vocabularies` that a run keeps, the task has a model but no corpus.
    """
    return resolve(TASKS[config.task].task)(config, vocabularies)


def make_model(config: Config, *sizes: Any) -> Any:
    """Return the config's model, for the vocabulary and output sizes that its task passes."""
    return resolve(MODELS[config.model.name].builder)(config.model, *sizes)
