"""Learning rate and warm-up, for any config.

    python sweep.py --config=configs/luong2015.py:data=dates \
        --sweep=configs/sweeps/learning_rate.py --workdir=sweeps/rate --trials=12 --pruner=median

The learning rate is drawn from a log-uniform distribution.
"""

from typing import Any


def space(trial: Any) -> None:
    """Suggest a learning rate and a number of warm-up steps."""
    trial.suggest_float("optimizer.learning_rate", 1e-4, 3e-2, log=True)
    trial.suggest_categorical("optimizer.warmup_steps", [0, 100, 300])
