"""Tests of plots with hostile and very long texts; warnings are errors in all tests."""

import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from evaluation import canvas, pictures
from tests.programs import ROOT

WORDS = ["$\\foo^$", "\x1b[31mred", "a\nb", "தமிழ்", "𒀀", "x" * 500, "\udcff", "</s>"]
LONG = [*WORDS, *(f"w{i}" for i in range(300))]
FORMULA = "predicted $\\foo^$"


def uniform(rows, columns):
    return np.full((rows, columns), 1 / columns)


DRAWINGS = {
    "heat_map": lambda words, path: pictures.heat_map(
        uniform(len(words), len(words)), words, words, FORMULA, path
    ),
    "heat_maps": lambda words, path: pictures.heat_maps(
        {f"layer 0 head {i}": uniform(len(words), len(words)) for i in range(2)},
        1, words, words, FORMULA, path,
    ),
    "over_text": lambda words, path: pictures.over_text(
        uniform(2, len(words)), words, FORMULA, path
    ),
    "highlighted": lambda words, path: pictures.highlighted(
        [words, words], list(uniform(2, len(words))), np.full(2, 0.5), FORMULA, path
    ),
    "over_passage": lambda words, path: pictures.over_passage(
        dict(zip(words, uniform(len(words), len(words)), strict=True)), words, set(WORDS),
        FORMULA, path,
    ),
    "two_series": lambda words, path: pictures.two_series(
        np.arange(len(words)), np.ones(len(words)), path
    ),
    "piano_rolls": lambda words, path: pictures.piano_rolls(
        uniform(len(words), 88) > 0, uniform(len(words), 88), path
    ),
    "joined": lambda words, path: pictures.joined({FORMULA: (["a"], [1.0])}, FORMULA, "y", path),
    "levels_and_curves": lambda words, path: pictures.levels_and_curves(
        {FORMULA: ([1.0], [[2.0]])}, {"$\\b^$": [3.0]}, FORMULA, "y", path
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWINGS)
def test_long_and_hostile_texts_are_drawn_literally_and_in_part(name, tmp_path, monkeypatch):
    # Smaller limits than in programs make this test fast.
    monkeypatch.setattr(pictures, "MOST_TOKENS", 10)
    monkeypatch.setattr(pictures, "LONGEST_SIDE", 2.0)
    monkeypatch.setattr(canvas, "LONGEST_SIDE", 20.0)
    drawn = set()
    monkeypatch.setattr(Text, "set_text", _recording(Text.set_text, drawn))
    DRAWINGS[name](LONG, tmp_path / "a.png")
    # The margins for tokens of up to canvas.LONGEST_TEXT characters come in addition.
    assert max(imread(tmp_path / "a.png").shape) <= 150 * (20 + 5)
    texts = {text for text in drawn if text}
    assert not any("\x1b" in text or "\n" in text or "\udcff" in text for text in texts)
    shown = {"over_text": "words", "over_passage": "rows", "highlighted": "sentences",
             "heat_map": "source tokens", "heat_maps": "target tokens"}  # fmt: skip
    if name in shown:
        assert any("the first " in text and f" {shown[name]}" in text for text in texts)
        assert {"$\\foo^$", "red"} <= texts and not any("x" * 30 in text for text in texts)


def _recording(set_text, drawn):
    def record(self, text):
        drawn.add(str(text))
        return set_text(self, text)

    return record


def test_pictures_leave_no_file_or_setting_behind(tmp_path):
    """Notebooks have settings of their users, which plots must not change."""
    before = dict(matplotlib.rcParams)
    with pytest.raises(OSError, match="missing"):
        DRAWINGS["joined"](WORDS, tmp_path / "missing" / "a.png")
    figure = DRAWINGS["heat_map"](WORDS, None)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [] and dict(matplotlib.rcParams) == before


def test_programs_import_matplotlib_only_to_draw():
    modules = "experiment, evaluation.translation_stream, serving.app, alignax"
    code = f"import sys, {modules}; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)
