"""Figures for all plots: of bounded size, with literal texts, and without warnings."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from terminal import clean
from writing import write_bytes

# Fonts for scripts that DejaVu Sans does not cover; fonts that are not installed are ignored.
_FALLBACKS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans Arabic", "Noto Sans Hebrew",
    "Noto Sans Devanagari", "Hiragino Sans", "Microsoft YaHei", "Arial Unicode MS",
)  # fmt: skip
_installed = set(font_manager.get_font_names())
_SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", *(font for font in _FALLBACKS if font in _installed)],
    "text.parse_math": False,  # tokens and labels such as $x^$ are not formulas
}
LONGEST_SIDE = 32.0  # of a figure, in inches; larger figures are saved with fewer dots per inch
LONGEST_TEXT = 24  # of a token, in characters


class Picture(Figure):
    """A figure that is independent of pyplot and its backends; a notebook shows it as a PNG."""

    options: dict[str, Any]  # arguments of `savefig`

    def png(self) -> bytes:
        """Return the content of a PNG file."""
        longest, file, dpi = max(self.get_size_inches()), io.BytesIO(), self.options["dpi"]
        with _drawing():
            dpi = min(dpi, dpi * LONGEST_SIDE / longest)
            self.savefig(file, format="png", **{**self.options, "dpi": dpi})
        return file.getvalue()

    _repr_png_ = png  # notebooks call a method with this name


@contextlib.contextmanager
def canvas(
    path: Path | None, size: tuple[float, float], dpi: int = 150, **options: Any
) -> Iterator[Picture]:
    """Yield a figure of `size` (width and height in inches), and save it as a PNG file afterwards.

    If `path` is None, no file is written. `options` are arguments of `Figure.savefig`, except that
    `layout` is an argument of `Figure`.
    """
    with _drawing():
        figure = Picture(figsize=size, layout=options.pop("layout", "constrained"))
        FigureCanvasAgg(figure)
        figure.options = {"dpi": dpi, **options}
        yield figure
        if path:
            write_bytes(path, figure.png())


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """Use the settings of this module, and suppress warnings.

    Missing glyphs are visible as boxes, and texts that are too long for the layout overlap.
    """
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


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
