"""Sentence pairs as text, with word links."""

from typing import NamedTuple


class Pair(NamedTuple):
    """A sentence and its translation.

    `alignment` is the gold word alignment in Pharaoh notation, or empty if the corpus has none:
    `2-3` is a sure link and `2?3` a possible link between source word 2 and target word 3, counted
    from 0. `links` are links such as `2-3` for guided alignment (data.links), or empty. `line` is
    positive only in a test set with several reference files: it is the line number, and pairs with
    the same number are references of one sentence.
    """

    source: str
    target: str
    alignment: str = ""
    links: str = ""
    line: int = 0
