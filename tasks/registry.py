"""Build the task and the model that a config names; configs/schema declares all names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from configs.base import Config
from configs.registry import MODELS, TASKS, resolve
from data.corpus import NO_INITIAL


def make_task(
    config: Config, vocabularies: Path | None = None, initial: Mapping[str, Path] = NO_INITIAL
) -> Any:
    """Build the task of a config and prepare its corpus.

    If `vocabularies` is the vocabulary folder of a run, the task loads only these vocabularies: it
    can decode or predict, but has no training or evaluation examples. `initial` are the
    vocabularies of another run from which the corpus is prepared; see `Corpus`.
    """
    return resolve(TASKS[config.task].task)(config, vocabularies, initial)


def make_model(config: Config, *sizes: Any) -> Any:
    """Build the model of a config; `sizes` are the vocabulary and output sizes of the task."""
    return resolve(MODELS[config.model.name].builder)(config.model, *sizes)
