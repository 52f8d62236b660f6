"""Pictures of a sweep, by Optuna: history, importance, slices and parallel coordinates."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import optuna
from matplotlib import pyplot as plt
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState
from optuna.visualization import matplotlib as pictures

from sweeping.points import changes, short_names
from sweeping.study import Record


def draw(records: Sequence[Record], metric: str, lower_is_better: bool, folder: Path) -> None:
    """PNG files of what is complete; nothing where that is not two runs of different points."""
    complete = [record for record in records if record.state == TrialState.COMPLETE]
    names = list(dict.fromkeys(name for record in complete for name in changes(record.point)))
    varied = [name for name in names if len(_values(complete, name)) > 1]
    if not varied:
        return
    study = _as_study(complete, varied, lower_is_better)
    drawings: dict[str, Callable[[], Any]] = {
        "history": lambda: pictures.plot_optimization_history(study, target_name=metric),
        "importance": lambda: pictures.plot_param_importances(
            study, evaluator=optuna.importance.PedAnovaImportanceEvaluator(), target_name=metric
        ),
        "slices": lambda: pictures.plot_slice(study, target_name=metric),
        "parallel": lambda: pictures.plot_parallel_coordinate(study, target_name=metric),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls its pictures experimental
        for name, drawing in drawings.items():
            drawing()
            figure = plt.gcf()
            figure.savefig(folder / f"{name}.png", dpi=120, bbox_inches="tight")
            plt.close(figure)


def _as_study(records: Sequence[Record], names: list[str], lower_is_better: bool) -> optuna.Study:
    """Complete runs with what their points have. Numbers of many values are drawn on an axis; of
    all else, what a point does not have is a value too, so that it is in every picture."""
    study = optuna.create_study(direction="minimize" if lower_is_better else "maximize")
    short, axes = short_names(names), {name: _axis(records, name) for name in names}
    for record in records:
        own: dict[str, Any] = {}
        for name, axis in axes.items():
            if isinstance(axis, CategoricalDistribution):
                own[name] = str(record.point.get(name, "–"))
            elif name in record.point:
                own[name] = record.point[name]
        study.add_trial(optuna.create_trial(
            params={short[name]: value for name, value in own.items()},
            distributions={short[name]: axes[name] for name in own}, value=record.score,
        ))  # fmt: skip
    return study


FEW = 8  # values that are worth a place each


def _axis(records: Sequence[Record], name: str) -> BaseDistribution:
    values = _values(records, name)
    numbers = [x for x in values if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) <= FEW or len(numbers) < len(values) - 1:
        return CategoricalDistribution([str(value) for value in values])
    low, high = min(numbers), max(numbers)
    log = low > 0 and high / low > 20
    if all(isinstance(x, int) for x in numbers):
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(low, high, log=log)


def _values(records: Sequence[Record], name: str) -> list[Any]:
    found = {record.point.get(name, "–") for record in records}
    return sorted(found, key=lambda x: (isinstance(x, str), x))
