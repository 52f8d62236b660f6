"""Luong 2015: a search over learning rate, dropout, score, alignment and window.

    python sweep.py --config=configs/luong2015.py:data=multi30k_de_en,size=small \
        --sweep=configs/sweeps/luong2015_search.py --workdir=sweeps/search --trials=40 \
        --pruner=hyperband

The window size D is drawn only for local attention, because global attention has no window.
"""

from typing import Any


def space(trial: Any) -> None:
    """Suggest the hyperparameters of one trial."""
    trial.suggest_float("optimizer.learning_rate", 1e-4, 1e-2, log=True)
    trial.suggest_float("model.dropout", 0.0, 0.5, step=0.1)
    trial.suggest_categorical("score", ["dot", "general", "concat"])
    if trial.suggest_categorical("align", ["global", "local_m", "local_p"]) != "global":
        trial.suggest_int("model.attention.D", 2, 20)
