"""Tasks by the names that configs use."""

from typing import Any

from configs.base import Config
from tasks.classification import Classification
from tasks.cloze import Cloze
from tasks.labelling import Labelling
from tasks.translation import Translation

TASKS: dict[str, type[Any]] = {
    "translation": Translation,
    "labelling": Labelling,
    "classification": Classification,
    "cloze": Cloze,
}


def make_task(config: Config) -> Any:
    return TASKS[config.task](config)
