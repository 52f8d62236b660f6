"""Text tables of parameters, for the terminal and for Markdown files."""

import re
from collections.abc import Iterable, Sequence

from markup import escape

_LAYER = re.compile(r"(?<=unrolled_)\d+")


def aligned_table(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return a Markdown table whose columns are also aligned as plain text.

    The first row is the header. `right` contains the columns that are aligned at the right.
    """
    rows = [[escape(cell) for cell in row] for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    signs = {*right}

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if i in signs else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |\n"

    rule = ["-" * (width - 1) + (":" if i in signs else "-") for i, width in enumerate(widths)]
    header, *body = rows
    return "".join(map(line, (header, rule, *body)))


def layer_pattern(name: str) -> str:
    """Return the name of a parameter with * for the number of its unrolled layer."""
    return _LAYER.sub("*", name)


def layer_range(names: Sequence[str]) -> str:
    """Return one name for the parameters of several layers, such as encoder/unrolled_0–5/W."""
    numbers = [int(found[0]) for name in names if (found := _LAYER.search(name))]
    if len(names) == 1 or not numbers:
        return names[0]
    return layer_pattern(names[0]).replace("*", f"{min(numbers)}–{max(numbers)}")


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape such as 512 × 64; a scalar has the shape 1."""
    return " × ".join(f"{size:,}" for size in shape) or "1"
