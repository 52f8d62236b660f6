"""Tasks by the names that configs use."""

from pathlib import Path

from configs.base import Config
from tasks.translation import Translation

TASKS = {"translation": Translation}


def make_task(config: Config, vocabularies: Path | None = None):
    """The config's task; with the `vocabularies` that a run keeps, without its corpus."""
    return TASKS[config.task](config, vocabularies)
