"""The settings of a sweep. This module needs neither Optuna nor JAX."""

from typing import NamedTuple

# sweeping/study.py maps these names to samplers and pruners of Optuna.
SAMPLERS = ("tpe", "random")
PRUNERS = ("none", "median", "hyperband")
STORAGE_EXAMPLE = "postgresql://USER@HOST/DATABASE"
STORAGE_VARIABLE = "ALIGNAX_STORAGE"  # environment variable with the database URL of SLURM jobs
LOSS_UNIT = "loss terms"  # default name of the units that the loss is averaged over


class Settings(NamedTuple):
    """The metric, the number of runs, the search method and the heartbeat timeout of a study."""

    metric: str  # validation metric, which is train.eval_metric of the config
    seeds: int = 1  # number of seeds, which is the number of runs per point
    trials: int = 20  # number of points to draw from a search space
    sampler: str = "tpe"
    pruner: str = "none"
    grace: int = 60  # a trial's worker counts as dead after this many seconds without a heartbeat
