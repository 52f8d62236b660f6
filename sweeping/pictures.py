"""Draw the plots of a sweep: history, importance, slices and parallel coordinates."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import optuna
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from evaluation.canvas import canvas, literal, literal_title
from sweeping.points import changes, short_names
from sweeping.study import Record

logger = logging.getLogger("alignax")
MOST_FIELDS = 12  # in a plot
MOST_TICKS = 20  # of a categorical axis
FEW_VALUES = 8  # config fields with more distinct numbers than this get a numeric axis
DPI = 130
DOT = {"s": 28, "alpha": 0.7, "linewidths": 0}


class Axis(NamedTuple):
    """A plot axis for one config field in which the points differ.

    A point that does not set the field has the value "–".
    """

    name: str
    ticks: list[str]  # tick labels of a categorical axis; empty for a numeric axis
    coordinates: np.ndarray  # coordinate of each run; NaN on a numeric axis if its value is "–"
    log: bool = False

    def label(self, axes: Axes) -> None:
        """Set the label, ticks and scale of the x axis of a plot."""
        axes.set_xlabel(literal_title(self.name))
        if self.ticks:
            axes.set_xticks(range(len(self.ticks)), map(literal, self.ticks), rotation=30)
            axes.set_xlim(-0.6, len(self.ticks) - 0.4)
        elif self.log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")  # the default formatter writes formulas
            axes.xaxis.set_minor_formatter("")


def draw(records: Sequence[Record], metric: str, lower_is_better: bool, folder: Path) -> None:
    """Plot the scores of the complete runs as PNG files in `folder`.

    Nothing is drawn if the complete runs do not differ in any field. If all scores are equal, or
    only one field differs, there is no plot of importances or of parallel coordinates. Fields with
    more than MOST_TICKS categorical values, and fields after the first MOST_FIELDS, are not drawn.
    """
    complete = [record for record in records if record.state == TrialState.COMPLETE]
    scores = np.array([record.score for record in complete], float)
    found = _axes(complete)
    fields = [axis for axis in found if len(axis.ticks) <= MOST_TICKS][:MOST_FIELDS]
    if len(fields) < len(found):
        drawn = {axis.name for axis in fields}
        names = ", ".join(axis.name for axis in found if axis.name not in drawn)
        logger.info(
            f"the plots do not show {names}: they show at most {MOST_FIELDS} fields, and no field "
            f"with more than {MOST_TICKS} values that are not numbers"
        )
    if not fields:
        return
    _history(scores, metric, lower_is_better, folder / "history.png")
    _slices(fields, scores, metric, folder / "slices.png")
    ranking = (folder / "importance.png", folder / "parallel.png")
    equal = np.ptp(scores) == 0
    if equal:
        logger.info(
            f"{metric} is {scores[0]:.4g} in every complete run, so {ranking[0].name} and "
            f"{ranking[1].name} are not drawn"
        )
    if equal or len(fields) == 1:  # there is nothing to rank
        for path in ranking:
            path.unlink(missing_ok=True)  # an interrupted sweep may have drawn them before
        return
    _importance(fields, scores, metric, lower_is_better, ranking[0])
    _parallel(fields, scores, metric, lower_is_better, ranking[1])


def _axes(records: Sequence[Record]) -> list[Axis]:
    names = list(dict.fromkeys(name for record in records for name in changes(record.point)))
    found = []
    for name, short in short_names(names).items():
        by_run = [record.point.get(name, "–") for record in records]
        values = sorted(set(by_run), key=lambda x: (isinstance(x, str), x))
        numbers = [x for x in values if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(values) < 2:
            continue
        if len(numbers) > FEW_VALUES and len(numbers) >= len(values) - 1:
            coordinates = np.array([np.nan if x == "–" else x for x in by_run], float)
            log = min(numbers) > 0 and max(numbers) / min(numbers) > 20
            found.append(Axis(short, [], coordinates, log))
        else:
            coordinates = np.array([values.index(x) for x in by_run], float)
            found.append(Axis(short, [_shown(x) for x in values], coordinates))
    return found


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _history(scores: np.ndarray, metric: str, lower_is_better: bool, path: Path) -> None:
    with canvas(path, (6, 3.4), dpi=DPI) as figure:
        axes = figure.subplots()
        best = (np.minimum if lower_is_better else np.maximum).accumulate(scores)
        axes.scatter(range(1, len(scores) + 1), scores, **DOT, label="complete run")
        axes.step(range(1, len(scores) + 1), best, where="post", color="C1", label="best so far")
        axes.set_xlabel("run")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel(metric)
        axes.legend(frameon=False)


def _importance(
    fields: list[Axis], scores: np.ndarray, metric: str, lower_is_better: bool, path: Path
) -> None:
    """Plot the importance of every config field for the score, computed by PED-ANOVA.

    A field is important if its values in the better runs are distributed differently from its
    values in all runs.
    """
    study = optuna.create_study(direction="minimize" if lower_is_better else "maximize")
    known = [axis for axis in fields if not np.isnan(axis.coordinates).any()]
    distributions = {axis.name: _distribution(axis) for axis in known}
    for run, score in enumerate(scores):
        params = {
            axis.name: axis.ticks[int(axis.coordinates[run])]
            if axis.ticks
            else axis.coordinates[run]
            for axis in known
        }
        trial = optuna.create_trial(params=params, distributions=distributions, value=score)
        study.add_trial(trial)
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna warns if there are too few points to rank fields
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    with canvas(path, (6, 0.8 + 0.4 * len(found)), dpi=DPI) as figure:
        axes = figure.subplots()
        names = [literal_title(name) for name in found]
        bars = axes.barh(names[::-1], list(found.values())[::-1], height=0.6)
        axes.bar_label(bars, fmt="%.2f", padding=3)
        axes.set_xlabel(f"importance for {metric} (sums to 1)")
        axes.margins(x=0.12)


def _distribution(axis: Axis) -> BaseDistribution:
    if axis.ticks:
        return CategoricalDistribution(axis.ticks)
    return FloatDistribution(axis.coordinates.min(), axis.coordinates.max(), log=axis.log)


def _slices(fields: list[Axis], scores: np.ndarray, metric: str, path: Path) -> None:
    """Plot the scores as a function of every config field, one plot per field.

    On categorical axes, lines show the mean score for each value.
    """
    widths = [max(2.5, 0.7 * len(axis.ticks)) for axis in fields]
    with canvas(path, (sum(widths) + 0.8, 3.6), dpi=DPI) as figure:
        row = figure.subplots(1, len(fields), width_ratios=widths, sharey=True, squeeze=False)
        for axis, axes in zip(fields, row[0], strict=True):
            axes.scatter(axis.coordinates + _offsets(axis, 0.15), scores, **DOT)
            for tick in range(len(axis.ticks)):
                mean = scores[axis.coordinates == tick].mean()
                axes.plot([tick - 0.3, tick + 0.3], [mean, mean], color="C1", lw=2)
            axis.label(axes)
        row[0][0].set_ylabel(f"{metric} (line: mean)")


def _parallel(
    fields: list[Axis], scores: np.ndarray, metric: str, lower_is_better: bool, path: Path
) -> None:
    """Plot the runs in parallel coordinates: one axis per field and one for the metric.

    Each run is a line through its field values and its score. The runs with the best
    scores are drawn last, on top of the other runs.
    """
    columns = [*fields, Axis(metric, [], scores)]
    colors = matplotlib.colormaps["viridis_r" if lower_is_better else "viridis"]
    scale = Normalize(scores.min(), scores.max() if scores.max() > scores.min() else None)
    heights = np.stack([_height(axis) + _offsets(axis, 0.04) for axis in columns], axis=1)
    order = np.argsort(scores)
    with canvas(path, (1 + 1.6 * len(columns), 4), dpi=DPI) as figure:
        axes = figure.subplots()
        for run in order[::-1] if lower_is_better else order:
            axes.plot(heights[run], color=colors(scale(scores[run])), alpha=0.8, lw=1.2)
        for x, axis in enumerate(columns):
            axes.axvline(x, color="0.6", lw=0.8, zorder=0)
            ends = [_shown(float(end(axis.coordinates))) for end in (np.nanmin, np.nanmax)]
            marks = [literal(mark) for mark in axis.ticks or ends]
            for i, mark in enumerate(marks):
                axes.annotate(
                    mark, (x, i / (len(marks) - 1)), (-4, 0), ha="right", va="center", fontsize=8,
                    textcoords="offset points",
                    path_effects=[withStroke(linewidth=3, foreground="white")],
                )  # fmt: skip
        axes.set_xticks(range(len(columns)), [literal_title(axis.name) for axis in columns])
        axes.set_yticks([])
        axes.set_xlim(-0.6, len(columns) - 0.9)
        for side in axes.spines.values():
            side.set_visible(False)


def _offsets(axis: Axis, most: float) -> np.ndarray:
    """Return offsets that show the runs with the same tick side by side; others are 0."""
    offsets = np.zeros(len(axis.coordinates))
    for tick in range(len(axis.ticks)):
        (same,) = np.nonzero(axis.coordinates == tick)
        if len(same) > 1:
            offsets[same] = np.linspace(-most, most, len(same))
    return offsets


def _height(axis: Axis) -> np.ndarray:
    """Scale the coordinates of an axis to the range from 0 to 1."""
    coordinates = np.log(axis.coordinates) if axis.log else axis.coordinates
    low, high = np.nanmin(coordinates), np.nanmax(coordinates)
    return (coordinates - low) / ((high - low) or 1)
