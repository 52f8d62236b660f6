"""Heat maps of attention, laid out as in the papers (source across, target down), and plots."""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import font_manager
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator

# Fonts for scripts that DejaVu Sans does not cover; fonts that are not installed are ignored.
_FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Hiragino Sans", "Microsoft YaHei", "Arial Unicode MS",
)  # fmt: skip
_installed = set(font_manager.get_font_names())
plt.rcParams["font.family"] = ["DejaVu Sans", *(font for font in _FALLBACKS if font in _installed)]
ACROSS = 40  # words per line in a heat map of a text
# Colors from weight 0 to the largest weight of a heat map; report.html uses the same colors.
WEIGHT_COLORS = LinearSegmentedColormap.from_list("weights", ["#f4f1ec", "#eea36a", "#b8410b"])
# Ignore warnings about missing glyphs, because Matplotlib draws visible boxes for them.
warnings.filterwarnings("ignore", "Glyph .* missing from font")


def heat_map(
    weights: np.ndarray, source: list[str], target: list[str], title: str, path: Path
) -> None:
    """Draw weights [target, source] between 0 and 1: source tokens across, target tokens down."""
    width, height = 0.34 * len(source) + 1.6, 0.34 * len(target) + 1.4
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    image = axes.imshow(weights, cmap=WEIGHT_COLORS, vmin=0, vmax=1)
    _separate_cells(axes, *weights.shape)
    axes.set_xticks(
        range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor", parse_math=False
    )
    axes.set_yticks(range(len(target)), target, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=9)
    axes.set_xlabel(title, fontsize=9, labelpad=8)
    # Make the color bar as high as the matrix for any width of the matrix.
    beside = axes.inset_axes((1 + 0.2 / width, 0, 0.15 / width, 1))
    bar = figure.colorbar(image, cax=beside)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8)
    figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.12)
    plt.close(figure)


def _separate_cells(axes: Axes, rows: int, columns: int) -> None:
    """Draw thin lines between the cells of an image, without a frame around the image."""
    axes.spines[:].set_visible(False)
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="minor", length=0)


def over_text(hops: np.ndarray, words: list[str], title: str, path: Path) -> None:
    """Draw weights [hop, word] over a text that is wrapped into lines of at most ACROSS words.

    The darkest color stands for the largest weight of the text.
    """
    across, largest = min(ACROSS, len(words)), float(hops.max())
    starts = range(0, len(words), ACROSS)
    high = 0.34 * len(hops) + 0.8
    figure, grid = plt.subplots(
        len(starts), squeeze=False, layout="constrained",
        figsize=(0.34 * across + 1.2, high * len(starts) + 0.3),
    )  # fmt: skip
    for axes, start in zip(grid[:, 0], starts, strict=True):
        line = words[start : start + across]
        part = np.full((len(hops), across), np.nan)  # NaN pads a last line that is shorter
        part[:, : len(line)] = hops[:, start : start + across]
        axes.imshow(part, cmap=WEIGHT_COLORS, vmin=0, vmax=largest)
        axes.set_xticks(
            range(len(line)), line, rotation=60, ha="left", rotation_mode="anchor", parse_math=False
        )
        axes.set_yticks(range(len(hops)), [f"hop {i + 1}" for i in range(len(hops))])
        axes.xaxis.tick_top()
        axes.tick_params(length=0, labelsize=9)
        axes.spines[:].set_visible(False)
        axes.add_patch(Rectangle((-0.5, -0.5), len(line), len(hops), fill=False, clip_on=False))
    figure.supxlabel(f"{title}; the darkest cell is {largest:.2f}", fontsize=8)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def heat_maps(
    weights: dict[str, np.ndarray],
    rows: int,
    source: list[str],
    target: list[str],
    title: str,
    path: Path,
) -> None:
    """Draw several named heat maps in a grid of `rows` rows, with a common color scale."""
    largest = max(float(w.max()) for w in weights.values())
    columns = len(weights) // rows
    width, height = 0.2 * len(source) + 0.3, 0.2 * len(target) + 0.4
    across, down = columns * width + 1, rows * height + 1.2
    smaller = min(1, 24 / max(across, down))  # limit the figure's width and height to 24 inches
    figure, grid = plt.subplots(
        rows, columns, squeeze=False, sharex=True, sharey=True,
        figsize=(across * smaller, down * smaller),
        gridspec_kw={
            "left": 1 / across, "right": 0.99, "bottom": 1 / down, "top": 1 - 0.3 / down,
        },
    )  # fmt: skip
    for axes, (name, picture) in zip(grid.flat, weights.items(), strict=True):
        axes.imshow(picture, cmap=WEIGHT_COLORS, vmin=0, vmax=largest)
        axes.set_title(name, fontsize=8 * smaller)
        axes.tick_params(length=0, labelsize=6 * smaller)
    figure.suptitle(f"{title}; the darkest cell is {largest:.2f}", fontsize=8, y=0.02, va="bottom")
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(target)), target, parse_math=False)
    for axes in grid[-1]:
        axes.set_xticks(range(len(source)), source, rotation=90, parse_math=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def highlighted(
    sentences: list[list[str]],
    of_words: list[np.ndarray],
    of_sentences: np.ndarray,
    title: str,
    path: Path,
) -> None:
    """Draw a document with its sentence weights and word weights (Yang 2016, Figure 5).

    A red bar before each sentence shows its weight p_s. The blue background of each word shows
    √p_s · p_w, which keeps words visible in sentences with small weights. The darkest red and the
    darkest blue stand for the largest values of the document.
    """
    across, height, left = 10.0, 0.22, 0.6  # figure width, line height, left margin (inches)
    figure = plt.figure(figsize=(across, 1))
    renderer, font = figure.canvas.get_renderer(), font_manager.FontProperties(size=9)  # pyright: ignore
    blue = [np.sqrt(s) * w for s, w in zip(of_sentences, of_words, strict=True)]
    deepest, reddest = max(float(b.max()) for b in blue), float(of_sentences.max())
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    line = 1
    for words, weights, weight in zip(sentences, blue, of_sentences, strict=True):
        x, first = left, line
        for word, w in zip(words, weights, strict=True):
            wide = renderer.get_text_width_height_descent(word, font, False)[0] / figure.dpi
            if x + wide > across - 0.1 and x > left:
                x, line = left, line + 1
            back = Rectangle((x - 0.03, line * height), wide + 0.06, height * 0.9)
            back.set(facecolor="tab:blue", alpha=0.85 * float(w) / deepest, linewidth=0)
            axes.add_patch(back)
            axes.text(x, line * height + height * 0.68, word, fontproperties=font, parse_math=False)
            x += wide + 0.09
        bar = Rectangle((0.1, first * height), 0.4, (line - first + 1) * height - 0.02)
        bar.set(facecolor="tab:red", alpha=0.85 * float(weight) / reddest, linewidth=0)
        axes.add_patch(bar)
        axes.text(0.3, first * height + height * 0.68, f"{weight:.2f}", size=7, ha="center")
        line += 1
    scale = f"red: p_s, at most {reddest:.2f}; blue: √p_s · p_w, at most {deepest:.2f}"
    axes.text(0.1, height * 0.68, f"{title}; {scale}", size=8, parse_math=False)
    figure.set_size_inches(across, (line + 0.5) * height)
    axes.set(xlim=(0, across), ylim=((line + 0.5) * height, 0))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def over_passage(
    rows: dict[str, np.ndarray], passage: list[str], marked: set[str], title: str, path: Path
) -> None:
    """Draw named rows of weights over a long passage.

    In every row, the darkest color stands for the largest weight of that row. Only the `marked`
    words are written below the rows, and marked words that are close to one another share a tick.
    """
    weights = np.stack([row / max(float(row.max()), 1e-9) for row in rows.values()])
    figure, axes = plt.subplots(figsize=(18, 0.24 * len(rows) + 1.8), layout="constrained")
    axes.imshow(weights, cmap=WEIGHT_COLORS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    places: list[int] = []
    labels: list[str] = []
    for i, word in enumerate(passage):
        if word in marked and places and i - places[-1] < len(passage) / 120:
            labels[-1] += f" {word}"
        elif word in marked:
            places.append(i)
            labels.append(word)
    axes.set_xticks(places, labels, rotation=90, fontsize=7, parse_math=False)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8, parse_math=False)
    scale = "the darkest cell of a row is its largest weight"
    axes.set_title(f"{title}; {scale}", fontsize=9, parse_math=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def two_series(gold: np.ndarray, predicted: np.ndarray, path: Path) -> None:
    """Plot a gold series and its prediction over time."""
    figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
    axes.plot(gold, label="gold", color="black", linewidth=1)
    axes.plot(predicted, label="predicted", color="tab:orange", linewidth=1.5, alpha=0.8)
    axes.set_xlabel("time step")
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def piano_rolls(gold: np.ndarray, predicted: np.ndarray, path: Path) -> None:
    """Draw the gold notes [time, note] of a piece above the predicted note probabilities."""
    sounding = np.flatnonzero(gold.any(axis=0) | (predicted > 0.1).any(axis=0))
    low, high = (int(sounding[0]), int(sounding[-1])) if len(sounding) else (0, gold.shape[1] - 1)
    figure, (above, below) = plt.subplots(
        2, sharex=True, figsize=(min(16, 2 + 0.08 * len(gold)), 5), layout="constrained"
    )
    for axes, notes, title in ((above, gold, "notes"), (below, predicted, "predicted")):
        image = notes[:, low : high + 1].T
        extent = (-0.5, len(notes) - 0.5, low - 0.5, high + 0.5)
        axes.imshow(
            image, cmap="gray_r", vmin=0, vmax=1, aspect="auto", origin="lower", extent=extent
        )
        axes.set(title=title, ylabel="note")
    below.set_xlabel("frame")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def joined(
    named: Mapping[str, tuple[Sequence[str], Sequence[float]]], across: str, up: str, path: Path
) -> None:
    """Plot named series as lines. A series consists of position labels and their values."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, (labels, values) in named.items():
        axes.plot(labels, values, marker="o", label=name)
    axes.set(xlabel=across, ylabel=up)
    figure.legend(loc="outside upper left", ncols=2)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def levels_and_curves(
    curves: Mapping[str, tuple[Sequence[float], list[list[float]]]],
    levels: dict[str, list[float]],
    across: str,
    up: str,
    path: Path,
) -> None:
    """Plot named curves with error bars, and one horizontal line per entry of `levels`.

    `curves` maps names to positions and, for each position, the values of all seeds. Error bars
    show the standard deviation over seeds. `levels` maps names to the values of all seeds; their
    means are drawn as horizontal lines.
    """
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, (places, values) in curves.items():
        means = [float(np.mean(seeds)) for seeds in values]
        deviations = [float(np.std(seeds, ddof=min(1, len(seeds) - 1))) for seeds in values]
        axes.errorbar(places, means, deviations, label=name, marker="o", capsize=3)
    styles = itertools.cycle((":", "-.", "--", "-", (0, (6, 4)), (0, (1, 5))))
    for (name, values), style in zip(levels.items(), styles, strict=False):
        axes.axhline(float(np.mean(values)), label=name, color="black", linestyle=style, lw=1)
    axes.set(xlabel=across, ylabel=up, yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    figure.legend(loc="outside upper left", ncols=2)
    figure.savefig(path, dpi=150)
    plt.close(figure)
