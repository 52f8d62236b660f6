"""Attention statistics: how strongly attention concentrates on a few source tokens."""

from typing import NamedTuple

import numpy as np

SMALL = 0.01  # an attention weight below this value counts as near zero
LEAST_SENTENCES = 20  # fewest sentences whose statistics are averaged at a target position


class AttentionSummary(NamedTuple):
    """Means of attention statistics over target tokens, including </s>.

    The weights of each target token are normalized to sum to 1. Each statistic is computed for each
    target token and then averaged: `effective` is the mean of exp(entropy), not exp of the mean.
    """

    entropy: float  # mean entropy of a target token's weights p: −Σ p ln p over source tokens, nats
    # Mean of exp(entropy), the effective number of attended source tokens: uniform attention over
    # this many tokens has the same entropy.
    effective: float
    small: float  # mean fraction of a target token's weights that are below SMALL
    largest: float  # mean of the largest weight of each target token
    source: float  # mean number of source tokens, including </s>
    tokens: int  # number of target tokens over which the means are taken


class AttentionStatistics:
    """Accumulates attention statistics of a corpus, one sentence at a time."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []

    def add(self, rows: np.ndarray) -> None:
        """Add the statistics of one sentence, which `measure` returns."""
        self._rows.append(rows)

    def overall(self) -> AttentionSummary:
        """Return the mean statistics over all target tokens of the corpus."""
        return _mean(np.concatenate(self._rows))

    def by_position(self) -> list[AttentionSummary]:
        """Return the mean statistics over all sentences, for every target position.

        The list ends before the first position that fewer than LEAST_SENTENCES sentences reach.
        """
        positions = []
        for t in range(max(map(len, self._rows), default=0)):
            rows = np.array([rows[t] for rows in self._rows if t < len(rows)])
            if len(rows) < LEAST_SENTENCES:
                break
            positions.append(_mean(rows))
        return positions


def measure(weights: np.ndarray) -> np.ndarray:
    """Compute statistics of attention weights [..., target, source] for every target token.

    The last axis of the result contains the entropy, the effective number of attended tokens, the
    fraction of small weights, the largest weight and the source length. All five are NaN for a
    target token whose weights are all zero (an empty window of local attention).
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
