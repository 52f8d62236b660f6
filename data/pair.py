"""One training example of translation, as text."""

from typing import NamedTuple


class Pair(NamedTuple):
    """A sentence and its translation.

    `alignment` is the gold word alignment where the corpus knows it, in Pharaoh notation over the
    tokens of both sides, counted from 0, source first: `2-3` is a sure link, `2?3` a possible one.
    """

    source: str
    target: str
    alignment: str = ""
