"""Where sentence pairs come from: the embedded corpus, local files, the TFDS catalogue.

Each corpus is a function from the `data` part of a config and a split's own name to a stream of
pairs. Nothing is held in memory.
"""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from configs.base import Config
from data.catalogue import read_catalogue
from data.files import find, lines, read_split
from data.pair import Pair
from errors import UserError


def read_pairs(data: Config, split: str) -> Iterator[Pair]:
    """The pairs of a split ("train", "valid" or "test"); those of one source stay together."""
    return read_split(data, split, CORPORA[data.corpus], lambda pair: pair.source)


def local_files(data: Config) -> list[Path]:
    """The files a corpus is read from, for the cache to know when they change."""
    if data.corpus not in ("text", "tsv"):
        return []
    languages = (data.source, data.target) if data.corpus == "text" else ("",)
    names = [name for name in data.splits.values() if name]
    files = [find(data, split, language) for split in names for language in languages]
    if data.alignment and data.splits.test:
        files.append(find(data, data.splits.test, pattern=data.alignment))
    return files


def _dates(data: Config, split: str) -> Iterator[Pair]:
    from data import dates  # brings Babel's locales, which no other corpus needs

    try:
        endless = dates.examples(split, source=data.source, target=data.target, seed=data.seed)
        yield from itertools.islice(endless, data.examples[split])
    except ValueError as error:
        raise UserError(str(error)) from None


def _text(data: Config, split: str) -> Iterator[Pair]:
    paths = [find(data, split, language) for language in (data.source, data.target)]
    sides, links = [lines(path) for path in paths], _gold_links(data, split)
    for number, (source, target) in enumerate(itertools.zip_longest(*sides)):
        if source is None or target is None:
            longer = number + 1 + sum(1 for side in sides for _ in side)
            counts = (number, longer) if source is None else (longer, number)
            raise UserError(
                f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}: "
                "parallel files need one line for each other, so find the line that slipped"
            )
        yield Pair(source.strip(), target.strip(), links(number))


def _gold_links(data: Config, split: str) -> Callable[[int], str]:
    """The gold alignment of a sentence by its number, from 0; "" where there is none.

    A file has a sentence a line, `0-0 1?2` (? marks a possible link), or a link a line: the number
    of the sentence, of its source and its target word, and S or P for sure and possible ones.
    """
    if not data.alignment or split != data.splits.test:
        return lambda number: ""
    path = find(data, split, pattern=data.alignment)
    found: dict[int, list[str]] = collections.defaultdict(list)
    base, turn = data.alignment_base, data.alignment_order == "target-source"

    def link(ends: Iterable[str], mark: str) -> str:
        source, target = (int(end) - base for end in ends)
        if min(source, target) < 0:
            raise ValueError("a number before the first")
        return f"{target}{mark}{source}" if turn else f"{source}{mark}{target}"

    for number, line in enumerate(lines(path)):
        fields = line.split()
        try:
            if fields and "-" not in line and "?" not in line:
                mark = "?" if fields[3:] == ["P"] else "-"
                found[int(fields[0]) - base].append(link(fields[1:3], mark))
                continue
            for field in fields:
                mark = "?" if "?" in field else "-"
                found[number].append(link(field.split(mark), mark))
        except ValueError:
            raise UserError(
                f"{path}, line {number + 1}: word links are wanted, as `0-0 1-2` for a sentence or "
                f"`1 1 1` for a link, numbers from data.alignment_base={base}, not {line[:40]!r}"
            ) from None
    return lambda number: " ".join(found[number])


def _tsv(data: Config, split: str) -> Iterator[Pair]:
    path = find(data, split)
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            yield Pair("", "")
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(f"{path}, line {number}: two columns parted by a tab are wanted")
        yield Pair(columns[0].strip(), columns[1].strip())


def _tfds(data: Config, split: str) -> Iterator[Pair]:
    for example in read_catalogue(data, split, {"source": data.source, "target": data.target}):
        texts = (example[language].decode() for language in (data.source, data.target))
        yield Pair(*(text.replace("\n", " ").strip() for text in texts))


CORPORA: dict[str, Callable[[Config, str], Iterator[Pair]]] = {
    "dates": _dates,
    "text": _text,
    "tsv": _tsv,
    "tfds": _tfds,
}
