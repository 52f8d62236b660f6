"""Attention statistics: how strongly attention concentrates on a few source tokens."""

from typing import NamedTuple

import numpy as np

SMALL = 0.01  # a smaller weight counts as near zero


class AttentionSummary(NamedTuple):
    """Means over target tokens, including </s>.

    The weights of each target token are normalized to sum to 1. Each statistic is computed for each
    target token and then averaged: `effective` is the mean of exp(entropy), not exp of the mean.
    """

    entropy: float  # −Σ p ln p over source tokens, in nats
    effective: float  # exp(entropy): as many equally attended tokens would have this entropy
    small: float  # fraction of the weights below SMALL
    largest: float  # the largest weight
    source: float  # number of source tokens, including </s>
    tokens: int  # number of target tokens measured


class AttentionStatistics:
    """Accumulates the measurements of a corpus' attention, one sentence at a time."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []

    def add(self, rows: np.ndarray) -> None:
        """Add the measurements of one sentence, as `measure` returns them."""
        self._rows.append(rows)

    def overall(self) -> AttentionSummary:
        """Return the means over all target tokens."""
        return _mean(np.concatenate(self._rows))

    def by_position(self, least: int = 20) -> list[AttentionSummary]:
        """Return the means per target position.

        Positions that fewer than `least` sentences reach are left out.
        """
        positions = []
        for t in range(max(map(len, self._rows), default=0)):
            rows = np.array([rows[t] for rows in self._rows if t < len(rows)])
            if len(rows) < least:
                break
            positions.append(_mean(rows))
        return positions


def measure(weights: np.ndarray) -> np.ndarray:
    """Measure attention weights [..., target, source].

    The last axis of the result has, for every target token, the entropy, the effective number of
    attended tokens, the fraction of small weights, the largest weight and the source length. They
    are NaN for tokens whose weights are all zero (an empty window of local attention).
    """
    totals = weights.sum(axis=-1, keepdims=True)
    p = (weights / np.where(totals > 0, totals, np.nan)).astype(float)
    entropy = -np.sum(p * np.log(np.where(p == 0, 1, p)), axis=-1)
    attended = np.where(totals[..., 0] > 0, 1, np.nan)
    columns = entropy, np.exp(entropy), attended * (p < SMALL).mean(axis=-1), p.max(axis=-1)
    return np.stack([*columns, attended * weights.shape[-1]], axis=-1)


def _mean(rows: np.ndarray) -> AttentionSummary:
    rows = rows[~np.isnan(rows[:, 0])]
    means = map(float, rows.mean(axis=0) if len(rows) else np.zeros(5))
    entropy, effective, small, largest, source = means
    return AttentionSummary(entropy, effective, small, largest, source, len(rows))
