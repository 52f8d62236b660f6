"""Tasks by the names that configs use."""

from configs.base import Config
from tasks.translation import Translation

TASKS = {"translation": Translation}


def make_task(config: Config):
    return TASKS[config.task](config)
