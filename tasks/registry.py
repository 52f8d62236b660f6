"""Tasks by the names that configs use."""

from ml_collections import ConfigDict

from tasks.translation import Translation

TASKS = {"translation": Translation}


def make_task(config: ConfigDict):
    return TASKS[config.task](config)
