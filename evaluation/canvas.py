"""Figures for all plots: of bounded size, with literal texts, and without warnings."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import font_manager
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from terminal import clean
from writing import write_bytes

# Fonts for scripts that DejaVu Sans does not cover; fonts that are not installed are ignored.
_FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Hiragino Sans", "Microsoft YaHei", "Arial Unicode MS",
)  # fmt: skip
_installed = set(font_manager.get_font_names())
plt.rcParams["font.family"] = ["DejaVu Sans", *(font for font in _FALLBACKS if font in _installed)]
plt.rcParams["text.parse_math"] = False  # tokens and labels such as $x^$ are not formulas
LONGEST_SIDE = 32.0  # of a figure, in inches; larger figures are saved with fewer dots per inch
LONGEST_TEXT = 24  # of a token, in characters


@contextlib.contextmanager
def canvas(
    path: Path, size: tuple[float, float], dpi: int = 150, **options: Any
) -> Iterator[Figure]:
    """Yield a figure of `size` (width and height in inches), and save it as a PNG file afterwards.

    `options` are arguments of `Figure.savefig`, except that `layout` is an argument of `Figure`.
    """
    with warnings.catch_warnings():
        # Missing glyphs are visible as boxes, and texts that are too long for the layout overlap.
        warnings.simplefilter("ignore")
        figure = plt.figure(figsize=size, layout=options.pop("layout", "constrained"))
        try:
            yield figure
            longest, file = max(figure.get_size_inches()), io.BytesIO()
            figure.savefig(file, dpi=min(dpi, dpi * LONGEST_SIDE / longest), **options)
            write_bytes(path, file.getvalue())
        finally:
            plt.close(figure)


def literal(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text without control characters, cut to `longest` characters."""
    text = clean(text).encode("utf-8", "replace").decode()  # fonts have no lone surrogates
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def literal_title(title: str) -> str:
    """Return a title or the name of a curve as a literal text."""
    return literal(title, longest=120)


def crop_note(shown: int, total: int, what: str) -> str:
    """Return a note for the title of a plot that shows only a part; "" if it shows everything."""
    return f"; the first {shown:,} of {total:,} {what}" if shown < total else ""
