"""Does attention select "a few important words, most weights near zero"? In numbers."""

from typing import NamedTuple

import numpy as np

SMALL = 0.01  # a weight under it is near zero


class Selection(NamedTuple):
    """Means over target words. Weights are made to sum to 1 before they are measured."""

    entropy: float  # in nats
    effective: float  # e^entropy: so many words, attended to evenly, would have this entropy
    small: float  # share of the weights that are under SMALL
    largest: float  # the largest weight
    source: float  # words there are to attend to
    words: int  # target words measured


class Statistics:
    """Gathers what was measured of a corpus' attention, the rows of a sentence at a time."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []

    def add(self, rows: np.ndarray) -> None:
        self._rows.append(rows)

    def overall(self) -> Selection:
        return _mean(np.concatenate(self._rows))

    def by_position(self, least: int = 20) -> list[Selection]:
        """For the first target word of every sentence, the second, ...; positions that fewer than
        `least` sentences reach are left out."""
        positions = []
        for t in range(max(map(len, self._rows), default=0)):
            rows = np.array([rows[t] for rows in self._rows if t < len(rows)])
            if len(rows) < least:
                break
            positions.append(_mean(rows))
        return positions


def measure(weights: np.ndarray) -> np.ndarray:
    """Entropy, effective words, share of small weights, largest weight and source length of weights
    [..., target, source], a row a target word; NaN for words that read nothing (an empty window).
    """
    totals = weights.sum(axis=-1, keepdims=True)
    p = (weights / np.where(totals > 0, totals, np.nan)).astype(float)
    entropy = -np.sum(p * np.log(np.where(p == 0, 1, p)), axis=-1)
    read = np.where(totals[..., 0] > 0, 1, np.nan)
    columns = entropy, np.exp(entropy), read * (p < SMALL).mean(axis=-1), p.max(axis=-1)
    return np.stack([*columns, read * weights.shape[-1]], axis=-1)


def _mean(rows: np.ndarray) -> Selection:
    rows = rows[~np.isnan(rows[:, 0])]
    means = map(float, rows.mean(axis=0) if len(rows) else np.zeros(5))
    entropy, effective, small, largest, source = means
    return Selection(entropy, effective, small, largest, source, len(rows))
