"""Pictures of a sweep: history, importance, slices and parallel coordinates."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
import optuna
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from sweeping.points import changes, short_names
from sweeping.study import Record

FEW = 8  # values of a number that are worth a place each
DOT = {"s": 28, "alpha": 0.7, "linewidths": 0}


class Field(NamedTuple):
    """What points differ in, as an axis. What a point does not have is a value too, called –."""

    name: str
    ticks: list[str]  # of values with a place each; none where the axis is one of numbers
    places: np.ndarray  # of every run; NaN where it has no such number
    log: bool = False

    def mark(self, axes: Axes) -> None:
        axes.set_xlabel(self.name)
        if self.ticks:
            axes.set_xticks(range(len(self.ticks)), self.ticks, rotation=30)
            axes.set_xlim(-0.6, len(self.ticks) - 0.4)
        elif self.log:
            axes.set_xscale("log")


def draw(records: Sequence[Record], metric: str, lower_is_better: bool, folder: Path) -> None:
    """PNG files of what is complete; nothing where that is not two runs of different points."""
    complete = [record for record in records if record.state == TrialState.COMPLETE]
    scores = np.array([record.score for record in complete], float)
    fields = _fields(complete)
    if not fields:
        return
    _history(scores, metric, lower_is_better, folder / "history.png")
    _importance(fields, scores, metric, lower_is_better, folder / "importance.png")
    _slices(fields, scores, metric, folder / "slices.png")
    _parallel(fields, scores, metric, lower_is_better, folder / "parallel.png")


def _fields(records: Sequence[Record]) -> list[Field]:
    names = list(dict.fromkeys(name for record in records for name in changes(record.point)))
    found = []
    for name, short in short_names(names).items():
        own = [record.point.get(name, "–") for record in records]
        values = sorted(set(own), key=lambda x: (isinstance(x, str), x))
        numbers = [x for x in values if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(values) < 2:
            continue
        if len(numbers) > FEW and len(numbers) >= len(values) - 1:
            places = np.array([np.nan if x == "–" else x for x in own], float)
            log = min(numbers) > 0 and max(numbers) / min(numbers) > 20
            found.append(Field(short, [], places, log))
        else:
            places = np.array([values.index(x) for x in own], float)
            found.append(Field(short, [_shown(x) for x in values], places))
    return found


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _history(scores: np.ndarray, metric: str, lower_is_better: bool, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    best = (np.minimum if lower_is_better else np.maximum).accumulate(scores)
    axes.scatter(range(1, len(scores) + 1), scores, **DOT, label="a complete run")
    axes.step(range(1, len(scores) + 1), best, where="post", color="C1", label="the best so far")
    axes.set_xlabel("runs, in their order")
    axes.set_ylabel(metric)
    axes.legend(frameon=False)
    _save(figure, path)


def _importance(
    fields: list[Field], scores: np.ndarray, metric: str, lower_is_better: bool, path: Path
) -> None:
    """By PED-ANOVA: how much the better runs differ from all in a field."""
    study = optuna.create_study(direction="minimize" if lower_is_better else "maximize")
    whole = [field for field in fields if not np.isnan(field.places).any()]
    axes_of = {field.name: _distribution(field) for field in whole}
    for run, score in enumerate(scores):
        params = {
            field.name: field.ticks[int(field.places[run])] if field.ticks else field.places[run]
            for field in whole
        }
        study.add_trial(optuna.create_trial(params=params, distributions=axes_of, value=score))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few points, all are equally important: one sees it
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    figure, axes = plt.subplots(figsize=(6, 0.8 + 0.4 * len(found)), layout="constrained")
    bars = axes.barh(list(found)[::-1], list(found.values())[::-1], height=0.6)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.set_xlabel(f"importance for {metric} (they add up to 1)")
    axes.margins(x=0.12)
    _save(figure, path)


def _distribution(field: Field) -> BaseDistribution:
    if field.ticks:
        return CategoricalDistribution(field.ticks)
    return FloatDistribution(field.places.min(), field.places.max(), log=field.log)


def _slices(fields: list[Field], scores: np.ndarray, metric: str, path: Path) -> None:
    widths = [max(2.5, 0.7 * len(field.ticks)) for field in fields]
    figure, row = plt.subplots(
        1, len(fields), figsize=(sum(widths) + 0.8, 3.6), width_ratios=widths, sharey=True,
        squeeze=False, layout="constrained",
    )  # fmt: skip
    for field, axes in zip(fields, row[0], strict=True):
        # Side by side, so that equal scores are seen as several.
        spread = np.random.default_rng(0).uniform(-0.15, 0.15, len(scores)) if field.ticks else 0
        axes.scatter(field.places + spread, scores, **DOT)
        for place in range(len(field.ticks)):
            mean = scores[field.places == place].mean()
            axes.plot([place - 0.3, place + 0.3], [mean, mean], color="C1", lw=2)
        field.mark(axes)
    row[0][0].set_ylabel(f"{metric}, and its mean")
    _save(figure, path)


def _parallel(
    fields: list[Field], scores: np.ndarray, metric: str, lower_is_better: bool, path: Path
) -> None:
    """A line a run, a little apart where they meet; the worst are drawn first."""
    axes_of = [*fields, Field(metric, [], scores)]
    figure, axes = plt.subplots(figsize=(1 + 1.6 * len(axes_of), 4), layout="constrained")
    colours = plt.get_cmap("viridis_r" if lower_is_better else "viridis")
    scale = Normalize(scores.min(), scores.max() if scores.max() > scores.min() else None)
    apart = np.linspace(-0.04, 0.04, len(scores))
    heights = np.stack([_height(field) + apart * bool(field.ticks) for field in axes_of], axis=1)
    order = np.argsort(scores)
    for run in order[::-1] if lower_is_better else order:
        axes.plot(heights[run], color=colours(scale(scores[run])), alpha=0.8, lw=1.2)
    for x, field in enumerate(axes_of):
        axes.axvline(x, color="0.6", lw=0.8, zorder=0)
        ends = [_shown(float(end(field.places))) for end in (np.nanmin, np.nanmax)]
        for i, mark in enumerate(field.ticks or ends):
            axes.annotate(
                mark, (x, i / (len(field.ticks or ends) - 1)), (4, 0), va="center", fontsize=8,
                textcoords="offset points", bbox={"fc": "white", "ec": "none", "alpha": 0.8},
            )  # fmt: skip
    axes.set_xticks(range(len(axes_of)), [field.name for field in axes_of])
    axes.set_yticks([])
    axes.set_xlim(-0.1, len(axes_of) - 0.75)
    for side in axes.spines.values():
        side.set_visible(False)
    _save(figure, path)


def _height(field: Field) -> np.ndarray:
    """Between 0 and 1, evenly for values with a place each."""
    places = np.log(field.places) if field.log else field.places
    low, high = np.nanmin(places), np.nanmax(places)
    return (places - low) / ((high - low) or 1)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=130)
    plt.close(figure)
