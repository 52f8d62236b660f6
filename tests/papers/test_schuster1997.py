"""The comparison says what the figures say, and trains what it compares."""

import numpy as np
import pytest

from data.labelling import prepare
from papers import schuster1997
from papers.schuster1997 import (
    BACKWARD,
    FORWARD,
    Row,
    compare,
    comparison,
    draw,
    merged_error,
)


def errors(brnn, merged, one):
    curves = {row: [one + abs(i - 3), one + abs(i - 3) + 0.2] for rows in (FORWARD, BACKWARD)
              for i, row in enumerate(rows)}  # fmt: skip
    levels = {Row("brnn"): brnn, Row("mlp"): 9.0, Row("tdnn"): 9.0, Row("merged", 10, 10): merged}
    return curves | {row: [value, value + 0.2] for row, value in levels.items()}


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ((1.0, 2.0, 3.0), "holds (1.1, 2.1, 3.1)"),
        ((2.0, 1.0, 3.0), "does not hold (2.1, 1.1, 3.1)"),
    ],
)
def test_the_ordering_is_checked(figures, verdict, tmp_path):
    text = comparison(errors(*figures), Row("merged", 10, 10), "error")
    order = "BRNN < merged, delay 10 and 10 < forward, delay 10, the best of one direction"
    assert f"{order}: {verdict}" in text
    assert "forward 10, backward 10" in text and "± over 2 seeds" in text
    draw(errors(*figures), Row("merged", 10, 10), "error", tmp_path / "delay.png")
    assert (tmp_path / "delay.png").stat().st_size > 5000


def test_every_row_is_trained_and_the_delays_are_chosen_by_validation(tmp_path, monkeypatch):
    """With the trainer's place taken by figures: best on validation at 5, on test at 10."""
    asked = []

    def scores(config, workdir, split):
        asked.append((workdir.name, split))
        model = config.model
        best = 5 if split == "valid" else 10
        return {"loss": 1.0 + abs(max(model.forward_delay, model.backward_delay) - best)}

    def merged(config, runs):
        assert [run.name for run in runs] in [
            [f"series-elman-forward-5-0-{seed}", f"series-elman-backward-0-5-{seed}"]
            for seed in (0, 1)
        ]
        return 0.5

    monkeypatch.setattr(schuster1997, "scores_of", scores)
    monkeypatch.setattr(schuster1997, "merged_error", merged)
    text = compare("series", "elman", [0, 1], tmp_path)
    assert "| merged, delay 5 and 5" in text and "forward 10, backward 10" in text
    assert "BRNN < separately trained and merged, delay 5 and 5 < forward, delay 10" in text
    assert len(asked) == len(set(asked)) == 2 * 2 * (2 * 6 + 5)
    assert (tmp_path / "comparison.md").read_text() == text


def test_separate_predictions_are_averaged(tmp_path):
    config = Row("forward", 0).config("series", "elman", 0)
    config.data.update({"cache": str(tmp_path), "examples": {"test": 2}, "series_length": 3})
    split = prepare(config.data).split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(2))])
    for name, shift in (("a", 0.5), ("b", -0.1)):
        folder = tmp_path / name / "eval" / "test"
        folder.mkdir(parents=True)
        numbers = [f"{y + shift:.6f}" for y in gold]
        (folder / "predictions.txt").write_text("\n".join([*numbers[:3], "", *numbers[3:], ""]))
    error = merged_error(config, [tmp_path / "a", tmp_path / "b"])
    assert error == pytest.approx(0.2**2, rel=1e-3)


@pytest.mark.slow
def test_the_papers_ordering_holds(tmp_path):
    """The claim of docs/schuster1997.md, with two seeds."""
    assert "the best of one direction: holds" in compare("series", "elman", [0, 1], tmp_path)
