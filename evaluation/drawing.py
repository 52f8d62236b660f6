"""Draw the attention weights or the predictions of one hypothesis or of one labeled input."""

from pathlib import Path

import numpy as np

from data.music import NOTES
from decoding.translator import Hypothesis
from evaluation.canvas import Picture
from evaluation.classification import draw_text
from evaluation.cloze import draw_question
from evaluation.forced_attention import readable
from evaluation.inputs import LabelledInput
from evaluation.pictures import heat_map, piano_rolls, two_series


def draw_hypothesis(
    source: list[str], hypothesis: Hypothesis, path: Path | None = None
) -> Picture | None:
    """Draw the attention weights of a hypothesis; return None if there are none.

    `source` contains the source tokens without </s>. The picture is written to `path`, if given.
    """
    if hypothesis.attention is None:
        return None
    tokens = readable([*source, "</s>"]), readable(hypothesis.tokens)
    return heat_map(
        hypothesis.attention,
        *tokens,
        "attention weights: source tokens across, hypothesis tokens down",
        path,
    )


def draw_input(result: LabelledInput, path: Path | None = None) -> Picture | None:
    """Draw the attention weights of a text or question, or a predicted series or piano roll.

    Return None if there is nothing to draw. The picture is written to `path`, if given.
    """
    label, weights = result.label, result.attention
    if isinstance(label, np.ndarray):
        x = np.asarray(result.text["x"])
        if label.shape[-1] != NOTES:
            return two_series(x.ravel(), label.ravel(), path, name="input")
        # The label of a frame is the next frame; no frame predicts the first one.
        silent = np.zeros((1, NOTES), label.dtype)
        return piano_rolls(np.concatenate([x, silent]), np.concatenate([silent, label]), path)
    if not weights:
        return None
    title = f"predicted {label} ({result.p:.2f})"
    draw = draw_question if "s" in weights else draw_text
    return draw(result.text, weights, title, path)
