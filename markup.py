"""Format tables in Markdown, and escape texts for Markdown."""

import re
from collections.abc import Iterable, Sequence

from terminal import clean

# Characters that Markdown interprets. An underscore inside a word, as in local_p, and a "<" that
# does not begin a tag, as in "<.001", are plain text.
_MARKUP = re.compile(r"[\\`*|\[\]$~]|(?<!\w)_|_(?!\w)")
_TAGS = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1, remarks: int = 0
) -> str:
    """Return a Markdown table whose cells are plain texts, which are escaped.

    The first `words` columns and the last `remarks` columns are left-aligned. The columns between
    them contain numbers and are right-aligned.
    """
    numbers = len(head) - words - remarks
    lines = [
        [escape(cell) for cell in head],
        [*["---"] * words, *["---:"] * numbers, *["---"] * remarks],
        *([escape(cell) for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def escape(text: str) -> str:
    """Return a plain text as one line of Markdown that shows it literally, also in table cells."""
    text = _MARKUP.sub(r"\\\g<0>", clean(text))
    return _TAGS.sub(lambda found: "&lt;" if found[0] == "<" else "&amp;", text)


def code(text: str) -> str:
    """Return a Markdown code span that shows a text literally."""
    text = clean(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{space}{text}{space}{ticks}"
