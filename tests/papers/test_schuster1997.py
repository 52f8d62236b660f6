"""The comparison says what the figures say."""

import pytest
from absl import flags

from papers.schuster1997 import BACKWARD, FORWARD, Row, comparison, draw


@pytest.fixture(autouse=True)
def parsed():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])


def errors(brnn, merged, one):
    curves = {row: [one + abs(i - 3), one + abs(i - 3) + 0.2] for rows in (FORWARD, BACKWARD)
              for i, row in enumerate(rows)}  # fmt: skip
    levels = {Row("brnn"): brnn, Row("mlp"): 9.0, Row("tdnn"): 9.0, Row("merged", 10, 10): merged}
    return curves | {row: [value, value + 0.2] for row, value in levels.items()}


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [((1.0, 2.0, 3.0), "holds (1.1 < 2.1 < 3.1)"), ((2.0, 1.0, 3.0), "does not hold")],
)
def test_the_ordering_is_checked(figures, verdict, tmp_path):
    text = comparison(errors(*figures), Row("merged", 10, 10))
    assert (
        f"BRNN < merged, delay 10 and 10 < forward, delay 10, the best of one direction: {verdict}"
        in text
    )
    assert "forward 10, backward 10" in text and "± over 2 seeds" in text
    draw(errors(*figures), Row("merged", 10, 10), tmp_path / "delay.png")
    assert (tmp_path / "delay.png").stat().st_size > 5000
