"""The settings of a sweep. This module needs neither Optuna nor JAX."""

from typing import NamedTuple

# sweeping/study.py maps these names to Optuna's samplers and pruners.
SAMPLERS = ("tpe", "random")
PRUNERS = ("none", "median", "hyperband")
LOSS_UNIT = "loss terms"  # stands for the unit of the loss where the task is unknown


class Settings(NamedTuple):
    """The metric, the number of runs, the search method and the heartbeat timeout of a study."""

    metric: str  # validation metric: train.eval_metric of the config
    seeds: int = 1  # runs per point
    trials: int = 20  # number of points to draw from a space
    sampler: str = "tpe"
    pruner: str = "none"
    grace: int = 60  # seconds without a heartbeat after which a trial counts as dead
