"""Word links of sentence pairs: their text format, files of links, and links between tokens."""

import collections
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from data.files import lines
from data.pair import Pair
from data.tokenizers import without_marks
from errors import UserError

Surfaces = tuple[Callable[[str], str], Callable[[str], str]]  # join the subwords of either side
Link = tuple[int, int]  # 0-based indices of the source word and the target word
_PHARAOH = re.compile(r"(\d+)-(\d+)")


class Gold(NamedTuple):
    """The annotated links of one sentence pair."""

    sure: set[Link]
    possible: set[Link]  # all links: the sure links and those marked with "?"


def parse_links(text: str) -> Gold:
    """Parse links in Pharaoh notation: `2-3` is a sure link, `2?3` a possible one."""
    sure, possible = set(), set()
    for item in text.split():
        source, target = map(int, item.replace("?", "-").split("-"))
        possible.add((source, target))
        if "?" not in item:
            sure.add((source, target))
    return Gold(sure, possible)


def format_links(links: Iterable[Link]) -> str:
    """Return links in Pharaoh notation, sorted by source word."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


class GoldFile(NamedTuple):
    """A file of gold word links."""

    # By sentence index: line number, source word, mark ("-" or "?") and target word of each link.
    links: dict[int, list[tuple[int, int, str, int]]]
    lines: int | None  # number of lines if each line holds a sentence; None: one link per line


def read_gold(path: Path, base: int, order: str) -> GoldFile:
    """Read a file of gold word links.

    The file has either one sentence per line (`0-0 1?2`) or one link per line: the numbers of the
    sentence, the source word and the target word, and optionally S (sure) or P (possible). The
    first word has the number `base` (data.alignment_base); in files with one link per line, the
    first sentence has this number, too. `order` is "source-target" or "target-source"
    (data.alignment_order).
    """
    links, by_sentence, number = collections.defaultdict(list), True, 0
    for number, line in enumerate(lines(path), 1):
        columns = line.split()
        try:
            if columns and "-" not in line and "?" not in line:
                mark, by_sentence = "?" if columns[3:] == ["P"] else "-", False
                source, target = _words(columns[1:3], base, order)
                links[int(columns[0]) - base].append((number, source, mark, target))
                continue
            for link in columns:
                mark = "?" if "?" in link else "-"
                source, target = _words(link.split(mark), base, order)
                links[number - 1].append((number, source, mark, target))
        except ValueError:
            raise UserError(
                f"{path}, line {number}: expected word links, either `0-0 1-2` for a sentence "
                f"or `1 1 1` for one link, counted from data.alignment_base={base}, but found "
                f"{line[:40]!r}: correct the line or data.alignment_base"
            ) from None
    return GoldFile(links, number if by_sentence else None)


def _words(ends: Sequence[str], base: int, order: str) -> tuple[int, int]:
    """Return the source word and the target word of a link, counted from 0."""
    source, target = (int(end) - base for end in ends)
    if min(source, target) < 0:
        raise ValueError(f"the link {ends} has a number below data.alignment_base={base}")
    return (target, source) if order == "target-source" else (source, target)


def add_gold(
    pairs: Iterator[Pair], path: Path, base: int, order: str, surfaces: Surfaces
) -> Iterator[Pair]:
    """Yield the pairs of the test split with the gold links of a file (see `read_gold`)."""
    gold, number = read_gold(path, base, order), 0
    hint = (
        "check data.alignment_order and data.alignment_base, and that the file belongs to this text"
    )
    for number, pair in enumerate(pairs, 1):
        links = gold.links.pop(number - 1, [])
        _check_inside(path, [(line, s, t) for line, s, _, t in links], pair, surfaces, hint)
        yield pair._replace(alignment=" ".join(f"{s}{mark}{t}" for _, s, mark, t in links))
    if gold.lines not in (None, number):
        raise _different_counts(path, gold.lines, number)
    for line, *_ in itertools.chain.from_iterable(gold.links.values()):
        raise UserError(
            f"{path}, line {line}: the link is in a sentence beyond the {number:,} sentence pairs "
            f"of the test split: {hint}"
        )


def add_links(pairs: Iterator[Pair], path: Path, surfaces: Surfaces) -> Iterator[Pair]:
    """Yield the pairs of the training split with the additional links of a file.

    Line n of the file contains the links of pair n in Pharaoh format, such as `0-0 1-2`: source
    word and target word, counted from 0.
    """
    hint = (
        "the file must belong to this text, and the source word must come first in each link "
        "(exchange the numbers if the links are target-source)"
    )
    rows = lines(path)

    def totals(read_rows: int, read_pairs: int) -> tuple[int, int]:
        """Count all lines and pairs, given the numbers of those that have been read."""
        return read_rows + sum(1 for _ in rows), read_pairs + sum(1 for _ in pairs)

    for number, (pair, line) in enumerate(itertools.zip_longest(pairs, rows), 1):
        if pair is None or line is None:
            counts = totals(number - (line is None), number - (pair is None))
            raise _different_counts(path, *counts)
        try:
            _check_inside(path, _pharaoh(path, number, line), pair, surfaces, hint)
        except UserError:
            # A missing line, which shifts all later lines, explains more than a wrong link.
            counts = totals(number, number)
            if counts[0] != counts[1]:
                raise _different_counts(path, *counts) from None
            raise
        yield pair._replace(links=f"{pair.links} {line}".strip())


def _pharaoh(path: Path, number: int, line: str) -> Iterator[tuple[int, int, int]]:
    """Yield the line number, source word and target word of each link of a line."""
    for item in line.split():
        match = _PHARAOH.fullmatch(item)
        if match is None and "?" in item:
            raise UserError(
                f"{path}, line {number}: the link {item[:40]!r} is marked as possible by ?, but "
                "training links must be sure links such as `2-2`: only the gold links of "
                "data.alignment may contain possible links, so write - instead of ?, or remove it"
            )
        if match is None:
            raise UserError(
                f"{path}, line {number}: expected word links such as `0-0 1-2`, source word and "
                f"target word counted from 0, but found {item[:40]!r}: correct the line"
            )
        yield number, int(match[1]), int(match[2])


def _check_inside(
    path: Path, links: Iterable[tuple[int, int, int]], pair: Pair, surfaces: Surfaces, hint: str
) -> None:
    """Raise an error if a link (line number, source word, target word) is outside its pair."""
    sides = zip(surfaces, (pair.source, pair.target), strict=True)
    sizes = [len(surface(text).split()) for surface, text in sides]
    for number, source, target in links:
        if source >= sizes[0] or target >= sizes[1]:
            raise UserError(
                f"{path}, line {number}: the link {source}-{target} (source-target, counted from "
                f"0) points outside its sentences of {sizes[0]} source words and {sizes[1]} target "
                f"words: {hint}"
            )


def _different_counts(path: Path, found: int | None, pairs: int) -> UserError:
    return UserError(
        f"{path} has {found:,} lines, but the split has {pairs:,} sentence pairs: line n must "
        "contain the word links of pair n (a pair without links has an empty line), so find the "
        "missing or extra line"
    )


def words_of_tokens(tokens: list[str], words: list[str]) -> list[int]:
    """Return, for each token, the 0-based index of the word in which the token begins.

    Tokens and words come from the same text, so they consist of the same characters, except for
    spaces, subword marks and Unicode normalization. If a tokenizer changes the number of
    characters, character positions are scaled proportionally.
    """
    owners = [i for i, word in enumerate(words) for _ in _bare(word)] or [0]
    lengths = [len(_bare(token)) for token in tokens]
    scale = len(owners) / max(1, sum(lengths))
    starts = [0, *itertools.accumulate(lengths)][:-1]
    return [owners[min(int(start * scale), len(owners) - 1)] for start in starts]


def _bare(token: str) -> str:
    """Return the decomposed characters of a token without subword marks and spaces.

    Decomposition, unlike composition, does not depend on where a text is split into tokens.
    """
    return "".join(unicodedata.normalize("NFKD", without_marks(token)).split())


def token_links(links: str, source_words: list[int], target_words: list[int]) -> np.ndarray:
    """Return the links between tokens, one row (target token, source token) per link.

    `links` are links between words in Pharaoh format. All tokens of linked words are linked.
    Tokens are counted from 1, so that zeros can be padding. `source_words` and `target_words`
    contain the word index of every token.
    """
    source_tokens, target_tokens = collections.defaultdict(list), collections.defaultdict(list)
    for tokens, words in ((source_tokens, source_words), (target_tokens, target_words)):
        for token, word in enumerate(words, 1):
            tokens[word].append(token)
    found = []
    for source, target in sorted(parse_links(links).sure):
        found += itertools.product(target_tokens[target], source_tokens[source])
    return np.array(found, np.int32).reshape(-1, 2)
