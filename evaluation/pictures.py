"""Heat maps of attention, laid out as in the papers (source across, target down), and plots.

Long texts are drawn in part, with a note, so that every picture needs little time and memory. Most
functions return the figure, for notebooks, and write it to a file only if they are given a path.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator

from evaluation.canvas import LONGEST_SIDE, Picture, canvas, crop_note, literal, literal_title

MOST_TOKENS = 80  # rows or columns of a heat map
ACROSS = 40  # words per line in a heat map of a text
# Colors from weight 0 to the largest weight of a heat map; report.html uses the same colors.
WEIGHT_COLORS = LinearSegmentedColormap.from_list("weights", ["#f4f1ec", "#eea36a", "#b8410b"])


def heat_map(
    weights: np.ndarray, source: list[str], target: list[str], title: str, path: Path | None = None
) -> Picture:
    """Draw weights [target, source] between 0 and 1: source tokens across, target tokens down.

    Only the first MOST_TOKENS tokens of each side are drawn.
    """
    weights, source, target, note = _cropped(weights, source, target)
    width, height = 0.34 * len(source) + 1.6, 0.34 * len(target) + 1.4
    with canvas(path, (width, height), bbox_inches="tight", pad_inches=0.12) as figure:
        axes = figure.subplots()
        # Unlike imshow, a mesh needs no arrays of the size of the picture, so it saves memory.
        image = axes.pcolormesh(
            weights, cmap=WEIGHT_COLORS, vmin=0, vmax=1, edgecolors="white", linewidth=1
        )
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        _name_columns(axes, source, first=0.5)
        axes.set_yticks(np.arange(len(target)) + 0.5, target)
        axes.tick_params(length=0, labelsize=9)
        axes.set_xlabel(title + note, fontsize=9, labelpad=8)
        # Make the color bar as high as the matrix for any width of the matrix.
        beside = axes.inset_axes((1 + 0.2 / width, 0, 0.15 / width, 1))
        bar = figure.colorbar(image, cax=beside)
        bar.outline.set_visible(False)
        bar.ax.tick_params(length=0, labelsize=8)
    return figure


def _cropped(
    weights: np.ndarray, source: list[str], target: list[str]
) -> tuple[np.ndarray, list[str], list[str], str]:
    """Return the part of a heat map that is drawn, with a note about the remaining tokens."""
    columns, rows = map(len, (source[:MOST_TOKENS], target[:MOST_TOKENS]))
    note = crop_note(columns, len(source), "source tokens")
    note += crop_note(rows, len(target), "target tokens")
    labels = [literal(token) for token in source[:columns]], [literal(t) for t in target[:rows]]
    return weights[:rows, :columns], *labels, note


def _name_columns(axes: Axes, names: list[str], first: float = 0.0) -> None:
    """Write the names of columns above a heat map, from the position `first` of the first one."""
    axes.set_xticks(
        np.arange(len(names)) + first, names, rotation=60, ha="left", rotation_mode="anchor"
    )
    axes.xaxis.tick_top()


def over_text(hops: np.ndarray, words: list[str], title: str, path: Path | None = None) -> Picture:
    """Draw weights [hop, word] over a text that is wrapped into lines of at most ACROSS words.

    The darkest color stands for the largest weight of the text. Only the first MOST_TOKENS hops are
    drawn, and only the lines that fit into LONGEST_SIDE.
    """
    across, largest = min(ACROSS, len(words)), float(hops.max())
    rows = min(MOST_TOKENS, len(hops))
    high = 0.34 * rows + 0.8
    starts = range(0, len(words), ACROSS)[: max(1, int(LONGEST_SIDE / high))]
    title = f"{literal_title(title)}; the darkest cell is {largest:.2f}"
    title += crop_note(rows, len(hops), "hops")
    title += crop_note(min(len(words), ACROSS * len(starts)), len(words), "words")
    size = (0.34 * across + 1.2, high * len(starts) + 0.3)
    with canvas(path, size, bbox_inches="tight") as figure:
        grid = figure.subplots(len(starts), squeeze=False)
        for axes, start in zip(grid[:, 0], starts, strict=True):
            line = [literal(word) for word in words[start : start + across]]
            part = np.full((rows, across), np.nan)  # NaN pads a last line that is shorter
            part[:, : len(line)] = hops[:rows, start : start + across]
            axes.imshow(part, cmap=WEIGHT_COLORS, vmin=0, vmax=largest)
            _name_columns(axes, line)
            axes.set_yticks(range(rows), [f"hop {i}" for i in range(rows)])
            axes.tick_params(length=0, labelsize=9)
            axes.spines[:].set_visible(False)
            axes.add_patch(Rectangle((-0.5, -0.5), len(line), rows, fill=False, clip_on=False))
        figure.supxlabel(title, fontsize=8)
    return figure


def heat_maps(
    weights: dict[str, np.ndarray],
    rows: int,
    source: list[str],
    target: list[str],
    title: str,
    path: Path,
) -> None:
    """Draw several named heat maps in a grid of `rows` rows, with a common color scale.

    Only the first MOST_TOKENS tokens of each side are drawn.
    """
    largest = max(float(w.max()) for w in weights.values())
    columns = len(weights) // rows
    parts = {name: _cropped(whole, source, target) for name, whole in weights.items()}
    _, source, target, note = next(iter(parts.values()))
    width, height = 0.2 * len(source) + 0.3, 0.2 * len(target) + 0.4
    across, down = columns * width + 1, rows * height + 1.2
    smaller = min(1, 24 / max(across, down))  # limit the figure's width and height to 24 inches
    margins = {"left": 1 / across, "right": 0.99, "bottom": 1 / down, "top": 1 - 0.3 / down}
    with canvas(path, (across * smaller, down * smaller), layout="none") as figure:
        grid = figure.subplots(rows, columns, squeeze=False, gridspec_kw=margins)
        for axes, (name, (part, *_)) in zip(grid.flat, parts.items(), strict=True):
            axes.imshow(part, cmap=WEIGHT_COLORS, vmin=0, vmax=largest)
            axes.set_title(literal(name), fontsize=8 * smaller)
            axes.tick_params(length=0, labelsize=6 * smaller)
            axes.set(xticks=[], yticks=[])
        title = f"{title}; the darkest cell is {largest:.2f}{note}"
        figure.suptitle(title, fontsize=8, y=0.02, va="bottom")
        for axes in grid[:, 0]:
            axes.set_yticks(range(len(target)), target)
        for axes in grid[-1]:
            axes.set_xticks(range(len(source)), source, rotation=90)


def highlighted(
    sentences: list[list[str]],
    of_words: list[np.ndarray],
    of_sentences: np.ndarray,
    title: str,
    path: Path | None = None,
) -> Picture:
    """Draw a document with its sentence weights and word weights (Yang 2016, Figure 5).

    A red bar before each sentence shows its weight p_s. The blue background of each word shows
    √p_s · p_w, which keeps words visible in sentences with small weights. The darkest red and the
    darkest blue stand for the largest values of the document. Sentences that do not fit into
    LONGEST_SIDE are left out.
    """
    across, height = 10.0, 0.22  # figure width, line height (inches)
    blue = [np.sqrt(s) * w for s, w in zip(of_sentences, of_words, strict=True)]
    deepest, reddest = max(float(b.max()) for b in blue), float(of_sentences.max())
    with canvas(path, (across, 1), layout="none") as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        line, shown = 1, 0
        for words, shades, weight in zip(sentences, blue, of_sentences, strict=True):
            if line * height > LONGEST_SIDE:
                break
            shown += 1
            first, line = line, _write_words(axes, words, shades / deepest, line, across, height)
            bar = Rectangle((0.1, first * height), 0.4, (line - first) * height - 0.02)
            bar.set(facecolor="tab:red", alpha=0.85 * float(weight) / reddest, linewidth=0)
            axes.add_patch(bar)
            axes.text(0.3, first * height + height * 0.68, f"{weight:.2f}", size=7, ha="center")
        scale = f"red: p_s, at most {reddest:.2f}; blue: √p_s · p_w, at most {deepest:.2f}"
        note = crop_note(shown, len(sentences), "sentences")
        axes.text(0.1, height * 0.68, f"{literal_title(title)}; {scale}{note}", size=8)
        figure.set_size_inches(across, (line + 0.5) * height)
        axes.set(xlim=(0, across), ylim=((line + 0.5) * height, 0))
    return figure


def _write_words(
    axes: Axes, words: list[str], shades: np.ndarray, line: int, across: float, height: float
) -> int:
    """Write the words of a sentence from `line` on; return the first line after the sentence."""
    figure, left = axes.get_figure(), 0.6
    renderer, font = figure.canvas.get_renderer(), font_manager.FontProperties(size=9)  # pyright: ignore
    x = left
    for word, shade in zip(map(literal, words), shades, strict=True):
        wide = renderer.get_text_width_height_descent(word, font, False)[0] / figure.dpi  # pyright: ignore
        if x + wide > across - 0.1 and x > left:
            x, line = left, line + 1
        if line * height > LONGEST_SIDE:
            axes.text(x, line * height + height * 0.68, "…", fontproperties=font)
            break
        back = Rectangle((x - 0.03, line * height), wide + 0.06, height * 0.9)
        back.set(facecolor="tab:blue", alpha=0.85 * float(shade), linewidth=0)
        axes.add_patch(back)
        axes.text(x, line * height + height * 0.68, word, fontproperties=font)
        x += wide + 0.09
    return line + 1


def over_passage(
    rows: dict[str, np.ndarray],
    passage: list[str],
    marked: set[str],
    title: str,
    path: Path | None = None,
) -> Picture:
    """Draw named rows of weights over a long passage.

    In every row, the darkest color stands for the largest weight of that row. Only the `marked`
    words are written below the rows, and marked words that are close to one another share a tick.
    Only the first MOST_TOKENS rows are drawn.
    """
    names = list(rows)[:MOST_TOKENS]
    weights = np.stack([rows[name] / max(float(rows[name].max()), 1e-9) for name in names])
    places: list[int] = []
    labels: list[str] = []
    for i, word in enumerate(passage):
        if word in marked and places and i - places[-1] < len(passage) / 120:
            labels[-1] += f" {word}"
        elif word in marked:
            places.append(i)
            labels.append(word)
    title = f"{literal_title(title)}; the darkest cell of a row is its largest weight"
    with canvas(path, (18, 0.24 * len(names) + 1.8)) as figure:
        axes = figure.subplots()
        axes.imshow(
            weights, cmap=WEIGHT_COLORS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        axes.set_xticks(places, [literal(label) for label in labels], rotation=90, fontsize=7)
        axes.set_yticks(range(len(names)), [literal(name) for name in names], fontsize=8)
        axes.set_title(title + crop_note(len(names), len(rows), "rows"), fontsize=9)
    return figure


def two_series(
    given: np.ndarray, predicted: np.ndarray, path: Path | None = None, name: str = "gold"
) -> Picture:
    """Plot a series called `name`, and the predicted series, over time."""
    with canvas(path, (9, 3)) as figure:
        axes = figure.subplots()
        axes.plot(given, label=name, color="black", linewidth=1)
        axes.plot(predicted, label="predicted", color="tab:orange", linewidth=1.5, alpha=0.8)
        axes.set_xlabel("time step")
        axes.legend()
    return figure


def piano_rolls(gold: np.ndarray, predicted: np.ndarray, path: Path | None = None) -> Picture:
    """Draw the gold notes [time, note] of a piece above the predicted note probabilities."""
    sounding = np.flatnonzero(gold.any(axis=0) | (predicted > 0.1).any(axis=0))
    low, high = (int(sounding[0]), int(sounding[-1])) if len(sounding) else (0, gold.shape[1] - 1)
    with canvas(path, (min(16, 2 + 0.08 * len(gold)), 5)) as figure:
        above, below = figure.subplots(2, sharex=True)
        for axes, notes, title in ((above, gold, "notes"), (below, predicted, "predicted")):
            image = notes[:, low : high + 1].T
            extent = (-0.5, len(notes) - 0.5, low - 0.5, high + 0.5)
            axes.imshow(
                image, cmap="gray_r", vmin=0, vmax=1, aspect="auto", origin="lower", extent=extent
            )
            axes.set(title=title, ylabel="note")
        below.set_xlabel("frame")
    return figure


def joined(
    named: Mapping[str, tuple[Sequence[str], Sequence[float]]], across: str, up: str, path: Path
) -> None:
    """Plot named series as lines. A series consists of position labels and their values."""
    with canvas(path, (7, 4), dpi=130) as figure:
        axes = figure.subplots()
        for name, (labels, values) in named.items():
            axes.plot(labels, values, marker="o", label=literal_title(name))
        axes.set(xlabel=across, ylabel=up)
        figure.legend(loc="outside upper left", ncols=2)


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
    with canvas(path, (7, 4.5)) as figure:
        axes = figure.subplots()
        for name, (places, values) in curves.items():
            means = [float(np.mean(seeds)) for seeds in values]
            deviations = [float(np.std(seeds, ddof=min(1, len(seeds) - 1))) for seeds in values]
            axes.errorbar(
                places, means, deviations, label=literal_title(name), marker="o", capsize=3
            )
        styles = itertools.cycle((":", "-.", "--", "-", (0, (6, 4)), (0, (1, 5))))
        for (name, values), style in zip(levels.items(), styles, strict=False):
            axes.axhline(
                float(np.mean(values)),
                label=literal_title(name),
                color="black",
                linestyle=style,
                lw=1,
            )
        axes.set(xlabel=across, ylabel=up, yscale="log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        figure.legend(loc="outside upper left", ncols=2)
