"""Sentence pairs as text, with gold word alignments."""

import collections
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from data.files import lines
from errors import UserError


class Pair(NamedTuple):
    """A sentence and its translation.

    `alignment` is the gold word alignment in Pharaoh notation, or empty if the corpus has none:
    `2-3` is a sure link and `2?3` a possible link between token 2 of the source and token 3 of the
    target, counted from 0.
    """

    source: str
    target: str
    alignment: str = ""


def read_alignments(path: Path, base: int, order: str) -> dict[int, str]:
    """Read a file of gold alignments; return the alignments in Pharaoh notation by sentence index.

    The file has either one sentence per line (`0-0 1?2`) or one link per line: the numbers of the
    sentence, the source word and the target word, and optionally S (sure) or P (possible). The
    first word has the number `base` (data.alignment_base); in files with one link per line, the
    first sentence has this number, too. `order` is "source-target" or "target-source"
    (data.alignment_order).
    """
    links: dict[int, list[str]] = collections.defaultdict(list)
    for number, line in enumerate(lines(path)):
        columns = line.split()
        try:
            if columns and "-" not in line and "?" not in line:
                mark = "?" if columns[3:] == ["P"] else "-"
                links[int(columns[0]) - base].append(_link(columns[1:3], mark, base, order))
                continue
            for link in columns:
                mark = "?" if "?" in link else "-"
                links[number].append(_link(link.split(mark), mark, base, order))
        except ValueError:
            raise UserError(
                f"{path}, line {number + 1}: expected word links, either `0-0 1-2` for a sentence "
                f"or `1 1 1` for one link, counted from data.alignment_base={base}, but found "
                f"{line[:40]!r}: correct the line or data.alignment_base"
            ) from None
    return {number: " ".join(found) for number, found in links.items()}


def _link(ends: Sequence[str], mark: str, base: int, order: str) -> str:
    source, target = (int(end) - base for end in ends)
    if min(source, target) < 0:
        raise ValueError(f"link {mark.join(ends)} has a number below data.alignment_base={base}")
    if order == "target-source":
        source, target = target, source
    return f"{source}{mark}{target}"
