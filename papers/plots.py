"""Draw the plots of the README from the committed results: `python -m papers.plots`.

Every file contains a digest of the results that it shows, so that a test finds plots that are out
of date.
"""

import hashlib
import itertools
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from evaluation.canvas import canvas, literal_title
from papers.registry import find_targets
from papers.results import FOLDER, Result, committed
from papers.verdicts import Verdict, claims_table

IMAGES = FOLDER.parent / "images"
WIDTH = 9.0  # inches; the README shows all plots at the same width
DIGEST = "Digest"  # name of the text chunk of a PNG file
_TEXT: dict[str, Any] = {"fontsize": 9}
# Colors of Okabe & Ito, which color-blind readers can distinguish; markers differ as well.
_BLUE, _RED, _ORANGE, _GRAY = "#0072b2", "#d55e00", "#e69f00", "#8c8c8c"
_VERDICTS = {
    "holds": (_BLUE, "o", _BLUE),
    "contradicted": (_RED, "s", _RED),
    "undecided": (_GRAY, "o", "white"),
}


def _plot(path: Path, height: float, *shown: Any) -> AbstractContextManager[Figure]:
    """Return a canvas of WIDTH that contains the digest of what it shows."""
    digest = hashlib.sha256(repr(shown).encode()).hexdigest()[:16]
    return canvas(path, (WIDTH, height), dpi=130, metadata={DIGEST: digest})


def draw_claims(path: Path) -> None:
    """Draw the differences of all claims in BLEU, with intervals and published differences."""
    groups = _claims("tokenized_bleu")
    height = sum(len(verdicts) + 1.2 for _, verdicts in groups)
    texts = [(name, claims_table(verdicts)) for name, verdicts in groups]
    with _plot(path, 0.205 * height + 1.2, texts) as figure:
        axes, y = figure.subplots(), 0.0
        axes.axvline(0, color="black", linewidth=0.8)
        for heading, verdicts in groups:
            axes.text(-0.01, y, heading, transform=axes.get_yaxis_transform(), ha="right",
                      va="center", weight="bold", **_TEXT)  # fmt: skip
            for verdict in verdicts:
                y += 1
                _draw_claim(axes, y, verdict)
            y += 1.2
        for outcome, (color, marker, face) in _VERDICTS.items():
            axes.plot([], [], marker, color=color, markerfacecolor=face, label=outcome)
        axes.plot([], [], "k|", markersize=9, markeredgewidth=1.6, label="published difference")
        axes.set(xlabel="difference in BLEU, with confidence interval over seeds (95 % or more)",
                 ylim=(y - 0.6, -0.8), yticks=[])  # fmt: skip
        axes.xaxis.set_major_locator(MultipleLocator(2))
        _tidy(axes)
        figure.legend(loc="outside upper center", ncols=4, frameon=False, **_TEXT)


def _claims(measure: str) -> list[tuple[str, list[Verdict]]]:
    """Return the measured claims in one measure, by page."""
    found = []
    for target, results in committed(find_targets()).items():
        for result in results:
            verdicts = [v for v in result.verdicts() if v.measure == measure and v.interval]
            if verdicts:
                found.append((f"{target}, {result.content['data']}", verdicts))
    return found


def _draw_claim(axes: Axes, y: float, verdict: Verdict) -> None:
    color, marker, face = _VERDICTS[verdict.outcome]
    assert verdict.effect is not None and verdict.interval is not None
    axes.plot(verdict.interval, (y, y), color=color, linewidth=1.6, solid_capstyle="butt")
    axes.plot(verdict.effect, y, marker, color=color, markerfacecolor=face, markersize=5)
    if verdict.published is not None:
        axes.plot(verdict.published, y, "k|", markersize=9, markeredgewidth=1.6)
    axes.text(-0.01, y, literal_title(str(verdict.claim)), transform=axes.get_yaxis_transform(),
              ha="right", va="center", **_TEXT)  # fmt: skip


def _tidy(axes: Axes) -> None:
    """Remove the frame, and draw a light grid behind the data."""
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.tick_params(left=False, labelsize=9)


def _result(page: str) -> Result:
    found = itertools.chain(*committed(find_targets()).values())
    return next(result for result in found if result.path.parent.name == page)


def _measured(page: str, measure: str) -> dict[str, list[float]]:
    """Return the results of all rows of a page, one per seed."""
    rows: Mapping[str, Any] = _result(page).content["rows"]
    return {name: row["measured"][measure] for name, row in rows.items()}


def _full_name(row: str) -> str:
    """Return the name of a row of jain2019.translation, with the paper."""
    paper = {"global": "Luong 2015, ", "local-": "Luong 2015, ", "margin": "Deng 2018, "}
    return paper.get(row[:6], "") + row


def draw_kinds(path: Path) -> None:
    """Draw the BLEU of all kinds of attention on Multi30k, and of models without attention."""
    kinds = {
        _full_name(name): scores
        for name, scores in _measured("jain2019.translation", "tokenized_bleu").items()
        if "Transformer" not in name  # it is scored with beam search
    }
    others = _measured("multi30k.english", "tokenized_bleu")
    names = ("LSTM seq2seq", "GRU encoder–decoder")
    without = {f"{name}, no attention": others[name] for name in names}
    rows = {**without, **kinds, "Transformer, 5 × the tokens": others["Transformer"]}
    order = sorted(rows, key=lambda name: statistics.mean(rows[name]))
    with _plot(path, 3.7, rows) as figure:
        axes = figure.subplots()
        for y, name in enumerate(order):
            color = _ORANGE if name in without else _BLUE if name in kinds else "black"
            _draw_scores(axes, y, rows[name], color)
        axes.set_yticks(range(len(order)), order)
        axes.set(xlabel="BLEU on Multi30k German–English (dots: seeds; lines: mean ± standard "
                 "deviation)", xlim=(22.5, 43))  # fmt: skip
        axes.xaxis.set_major_locator(MultipleLocator(2))
        _tidy(axes)


def _draw_scores(axes: Axes, y: float, scores: Sequence[float], color: str) -> None:
    """Draw the scores of all seeds, their mean and standard deviation, and the mean as text."""
    mean, deviation = statistics.mean(scores), statistics.stdev(scores)
    axes.plot(scores, [y] * len(scores), "o", color=color, alpha=0.35, markersize=4)
    axes.errorbar(mean, y, xerr=deviation, color=color, marker="|", markersize=9, capsize=0,
                  linewidth=1.6, markeredgewidth=1.8)  # fmt: skip
    axes.annotate(f"{mean:.1f}", (max(*scores, mean + deviation), y), xytext=(6, 0),
                  textcoords="offset points", va="center", **_TEXT)  # fmt: skip


_TASKS = {
    "translation": "jain2019.translation",
    "cloze questions": "jain2019.reading.novels_ne",
    "sentiment, SST-2": "jain2019.classification.sst2",
    "sentiment, IMDB": "jain2019.classification.imdb",
}
_DROPS = {
    "drop_attention": ("most attended token", _BLUE, "o"),
    "drop_gradient": ("token with the largest gradient", _ORANGE, "D"),
    "drop_random": ("random token", _GRAY, "x"),
}


def draw_drops(path: Path) -> None:
    """Draw how much less probable predictions become if an input token is removed."""
    found = {task: [_measured(page, drop) for drop in _DROPS] for task, page in _TASKS.items()}
    height = sum(len(drops[0]) + 1.3 for drops in found.values())
    with _plot(path, 0.195 * height + 1.2, found) as figure:
        axes, ticks, y = figure.subplots(), list[tuple[float, str]](), 0.0
        for task, drops in found.items():
            axes.text(-0.01, y, task, transform=axes.get_yaxis_transform(), ha="right",
                      va="center", weight="bold", **_TEXT)  # fmt: skip
            for name in drops[0]:
                y += 1
                ticks.append((y, _full_name(name)))
                for drop, (_, color, marker) in zip(drops, _DROPS.values(), strict=True):
                    axes.errorbar(
                        statistics.mean(drop[name]), y, xerr=statistics.stdev(drop[name]),
                        fmt=marker, color=color, markersize=5, linewidth=1.2,
                    )  # fmt: skip
            y += 1.3
        for label, color, marker in _DROPS.values():
            axes.plot([], [], marker, color=color, label=label)
        axes.set_yticks(*zip(*ticks, strict=True))
        axes.set(xlabel="drop in log p of the prediction if the token is removed, in nats "
                 "(lines: standard deviation over seeds)",
                 ylim=(y - 0.6, -0.8), xlim=(-0.1, None))  # fmt: skip
        _tidy(axes)
        figure.legend(loc="outside upper center", ncols=3, frameon=False, **_TEXT)


PLOTS = {
    "claims.png": draw_claims,
    "attention-kinds.png": draw_kinds,
    "faithfulness-drops.png": draw_drops,
}

if __name__ == "__main__":
    for file_name, draw in PLOTS.items():
        draw(IMAGES / file_name)
