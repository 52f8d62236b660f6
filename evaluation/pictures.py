"""Attention as pictures, in the manner of the papers: source across, target down."""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def heat_map(weights: np.ndarray, source: list[str], target: list[str], path: Path) -> None:
    """Weights [target, source] as a grey picture; white is 1."""
    width, height = 0.34 * len(source) + 1.6, 0.34 * len(target) + 1.4
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    image = axes.imshow(weights, cmap="gray", vmin=0, vmax=1)
    axes.set_xticks(range(len(source)), source, rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=9)
    figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    figure.savefig(path, dpi=150)
    plt.close(figure)
