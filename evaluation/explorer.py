"""Choose the example and the token that report.html shows first."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Prefer to show an example whose source length, in tokens, is in this range: such an example is
# not trivial and fits on a screen.
MODERATE = range(8, 25)


def focus_token(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> int:
    """Return the target position to highlight first, given attention weights [target, source].

    Reordering is easy to see where attention clearly moves backward. Among these positions, the
    position with the longest target token is chosen. If attention never moves backward, position 0
    is chosen.
    """
    places, movements = _backward_movements(weights, source, target)
    clear = places[movements > movements.max(initial=0) / 2].tolist()
    return max(clear, key=lambda t: len(target[t]), default=0)


def opening_example(examples: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the example that the page shows first.

    Examples of moderate length with a correct prediction are preferred, then other examples of
    moderate length, then all other examples. Within each group, the example with the strongest
    backward movements of attention is chosen, so that the page opens with an example of reordering.
    """

    def interest(i: int) -> tuple[bool, bool, float]:
        example, best = examples[i], examples[i]["hypotheses"][0]
        moderate = len(example["source"]) in MODERATE
        total = 0.0
        if best["attention"]:
            weights = np.array(best["attention"]["attention"])
            movements = _backward_movements(weights, example["source"], best["tokens"])[1]
            total = float(movements.sum())
        return moderate, moderate and example["correct"], total

    return max(range(len(examples)), key=interest, default=0)


def _backward_movements(
    weights: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return target positions, and how strongly attention moves backward at each of them.

    Attention moves backward if the source position with the largest weight lies before the
    corresponding position of the preceding target token. The strength is the smaller of the two
    largest weights, or 0 if attention does not move backward. Target tokens that are punctuation or
    </s> are skipped, and movements to such source tokens do not count, because the attention of
    punctuation is often arbitrary.
    """
    heaviest, largest = weights.argmax(axis=1), weights.max(axis=1)
    places = np.flatnonzero(_are_words(target))
    smaller = np.minimum(largest[places][1:], largest[places][:-1])
    backward = np.diff(heaviest[places]) < 0
    counted = backward & np.array(_are_words(source))[heaviest[places][1:]]
    return places[1:], np.where(counted, smaller, 0)


def _are_words(tokens: Sequence[str]) -> list[bool]:
    return [token != "</s>" and any(map(str.isalnum, token)) for token in tokens]
