"""Attention as pictures, in the manner of the papers: source across, target down."""

import warnings
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import font_manager
from matplotlib import pyplot as plt

# For scripts that matplotlib's own font lacks, where the machine has one that does not.
_FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Hiragino Sans", "Microsoft YaHei", "Arial Unicode MS",
)  # fmt: skip
_here = set(font_manager.get_font_names())
plt.rcParams["font.family"] = ["DejaVu Sans", *(font for font in _FALLBACKS if font in _here)]
warnings.filterwarnings("ignore", "Glyph .* missing from font")  # boxes tell it as well


def heat_map(
    weights: np.ndarray, source: list[str], target: list[str], title: str, path: Path
) -> None:
    """Weights [target, source] as a grey picture; white is 1."""
    width, height = 0.34 * len(source) + 1.6, 0.34 * len(target) + 1.4
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    image = axes.imshow(weights, cmap="gray", vmin=0, vmax=1)
    axes.set_xticks(
        range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor", parse_math=False
    )
    axes.set_yticks(range(len(target)), target, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=9)
    axes.set_xlabel(title, fontsize=8)
    # As high as the matrix, however wide that is.
    beside = axes.inset_axes((1 + 0.2 / width, 0, 0.15 / width, 1))
    figure.colorbar(image, cax=beside)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def heat_maps(
    weights: dict[str, np.ndarray],
    rows: int,
    source: list[str],
    target: list[str],
    title: str,
    path: Path,
) -> None:
    """Many of them side by side under their names, with the words at the margin; white is the
    largest weight of all."""
    largest = max(float(w.max()) for w in weights.values())
    columns = len(weights) // rows
    width, height = 0.2 * len(source) + 0.3, 0.2 * len(target) + 0.4
    across, down = columns * width + 1, rows * height + 1.2
    smaller = min(1, 24 / max(across, down))  # inches
    figure, grid = plt.subplots(
        rows, columns, squeeze=False, sharex=True, sharey=True,
        figsize=(across * smaller, down * smaller),
        gridspec_kw={
            "left": 1 / across, "right": 0.99, "bottom": 1 / down, "top": 1 - 0.3 / down,
        },
    )  # fmt: skip
    for axes, (name, picture) in zip(grid.flat, weights.items(), strict=True):
        axes.imshow(picture, cmap="gray", vmin=0, vmax=largest)
        axes.set_title(name, fontsize=8 * smaller)
        axes.tick_params(length=0, labelsize=6 * smaller)
    figure.suptitle(f"{title}; white is {largest:.2f}", fontsize=8, y=0.02, va="bottom")
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(target)), target, parse_math=False)
    for axes in grid[-1]:
        axes.set_xticks(range(len(source)), source, rotation=90, parse_math=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
