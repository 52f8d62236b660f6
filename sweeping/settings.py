"""How a sweep is searched. This module needs neither Optuna nor JAX."""

from typing import NamedTuple

# sweeping/study.py maps these names to Optuna's samplers and pruners.
SAMPLERS = ("tpe", "random")
PRUNERS = ("none", "median", "hyperband")


class Settings(NamedTuple):
    """Settings of a study."""

    metric: str  # of the validation split: the config's train.eval_metric
    seeds: int = 1  # runs per point
    trials: int = 20  # number of points to draw from a space
    sampler: str = "tpe"
    pruner: str = "none"
    grace: int = 60  # seconds without a heartbeat after which a trial counts as dead
