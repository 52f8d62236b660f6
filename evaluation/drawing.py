"""Draw the attention weights or the predictions of one hypothesis or of one labelled input."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from data.music import NOTES
from decoding.translator import Hypothesis
from evaluation.classification import draw_text
from evaluation.cloze import draw_question
from evaluation.forced_attention import readable
from tasks.task import LabelledInput

if TYPE_CHECKING:
    from evaluation.canvas import Picture


def draw_hypothesis(
    source: list[str], hypothesis: Hypothesis, path: Path | None = None
) -> "Picture | None":
    """Draw the attention weights of a hypothesis; return None if there are none.

    `source` contains the source tokens without </s>. The picture is written to `path`, if given.
    """
    if hypothesis.attention is None:
        return None
    from evaluation import pictures  # here, because importing matplotlib is slow

    tokens = readable([*source, "</s>"]), readable(hypothesis.tokens)
    return pictures.heat_map(
        hypothesis.attention,
        *tokens,
        "attention weights: source tokens across, hypothesis tokens down",
        path,
    )


def draw_input(result: LabelledInput, path: Path | None = None) -> "Picture | None":
    """Draw the attention weights of a text or question, or a predicted series or piano roll.

    Return None if there is nothing to draw. The picture is written to `path`, if given.
    """
    label, weights = result.label, result.attention
    if isinstance(label, np.ndarray):
        from evaluation import pictures  # as above

        x = np.asarray(result.text["x"])
        if label.shape[-1] != NOTES:
            return pictures.two_series(x.ravel(), label.ravel(), path, name="input")
        # The label of a frame is the next frame; no frame predicts the first one.
        silent = np.zeros((1, NOTES), label.dtype)
        return pictures.piano_rolls(
            np.concatenate([x, silent]), np.concatenate([silent, label]), path
        )
    if not weights:
        return None
    title = f"predicted {label} ({result.p:.2f})"
    draw = draw_question if "s" in weights else draw_text
    return draw(result.text, weights, title, path)
