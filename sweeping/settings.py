"""The settings of a sweep. This module needs neither Optuna nor JAX."""

from typing import NamedTuple

# sweeping/study.py maps these names to samplers and pruners of Optuna.
SAMPLERS = ("tpe", "random")
PRUNERS = ("none", "median", "hyperband")
LOSS_UNIT = "loss terms"  # default name for the units over which the loss is averaged


class Settings(NamedTuple):
    """The metric, the number of runs, the search method and the heartbeat timeout of a study."""

    metric: str  # validation metric, which is train.eval_metric of the config
    seeds: int = 1  # number of seeds, that is, of runs per point
    trials: int = 20  # number of points to draw from a search space
    sampler: str = "tpe"
    pruner: str = "none"
    grace: int = 60  # seconds without a heartbeat after which the worker of a trial counts as dead
