"""Sentence pairs: the embedded corpus, local files, the TFDS catalogue; and how they are prepared.

Each corpus is a function from the `data` part of a config and a split's own name to a stream of
pairs; nothing is held in memory. Prepared, a pair is two rows of token ids that end in </s>.
"""

import collections
import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from configs.base import Config
from data.catalogue import read_catalogue
from data.files import find, lines, read_split, split_names
from data.pair import Pair
from data.store import Field, Prepared, Writer, cached, progress
from data.vocabulary import EOS, VOCABULARIES, Vocabulary
from errors import UserError

logger = logging.getLogger("alignax")
FIELDS = {"source": Field(("source",)), "target": Field(("target",))}
SHAPING = (  # the fields of config.data that decide what is prepared,
    "corpus", "source", "target", "splits", "files", "holdout", "max_length",
    "source_vocab", "target_vocab", "shared_vocab", "alignment", "alignment_base",
    "alignment_order",
)  # fmt: skip
SHAPING_OF = {"dates": ("seed", "examples"), "tfds": ("name",)}  # and those of one corpus


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


def prepare(data: Config) -> Prepared:
    """The prepared form of the corpus that `data` describes, made now if the cache lacks it."""
    shaping = (*SHAPING, *SHAPING_OF.get(data.corpus, ()))
    label = f"{data.corpus}-{data.source}-{data.target}"
    folder = cached(data, shaping, local_files(data), label, functools.partial(_make, data))
    return Prepared(folder, FIELDS, _load_vocabularies(data, folder))


def only_vocabularies(data: Config, folder: Path) -> Prepared:
    """What `Prepared.copy_vocabularies` left there: no splits, but all that translating needs."""
    if not (folder / "source.vocab").exists():
        raise UserError(f"{folder} holds no vocabularies: it is no folder of a translation run")
    return Prepared(folder, FIELDS, _load_vocabularies(data, folder))


def _make(data: Config, folder: Path) -> dict[str, Any]:
    _learn_vocabularies(data, folder)
    vocabularies = _load_vocabularies(data, folder)
    counts = {name: _write(data, name, vocabularies, folder) for name in split_names(data)}
    sizes = {name: len(vocabulary) for name, vocabulary in vocabularies.items()}
    return {"counts": counts, "vocabulary": sizes}


def _sides(data: Config) -> list[tuple[str, Config, str]]:
    source = ("source", data.source_vocab, data.source)
    return [source] if data.shared_vocab else [source, ("target", data.target_vocab, data.target)]


def _learn_vocabularies(data: Config, folder: Path) -> None:
    for side, settings, language in _sides(data):

        def texts(side: str = side, language: str = language) -> Iterator[str]:
            for pair in progress(read_pairs(data, "train"), f"vocabulary ({language})"):
                if data.shared_vocab:
                    yield from pair[:2]
                else:
                    yield getattr(pair, side)

        VOCABULARIES[settings.kind].learn(texts(), settings, language).save(
            folder / f"{side}.vocab"
        )


def _load_vocabularies(data: Config, folder: Path) -> dict[str, Vocabulary]:
    def load(side: str, settings: Config, language: str) -> Vocabulary:
        return VOCABULARIES[settings.kind].load(folder / f"{side}.vocab", settings, language)

    source, *rest = _sides(data)
    # A shared vocabulary still tokenises each language by its own rules.
    target = rest[0] if rest else (*source[:2], data.target)
    return {"source": load(*source), "target": load(*target)}


def _write(
    data: Config, split: str, vocabularies: dict[str, Vocabulary], folder: Path
) -> dict[str, int]:
    """Writes one split. Only training leaves long pairs out: scores are of whole test sets."""
    read = kept = empty = long = 0
    source, target = vocabularies["source"], vocabularies["target"]
    with Writer(folder, split, FIELDS) as writer:
        for pair in progress(read_pairs(data, split), split):
            read += 1
            x, y = source.encode(pair.source), target.encode(pair.target)
            if not x or not y:
                empty += 1
            elif split == "train" and max(len(x), len(y)) > data.max_length:
                long += 1
            else:
                kept += 1
                writer.add({"source": [*x, EOS], "target": [*y, EOS]}, pair._asdict())
    summary = (
        f"{split}: {read:,} pairs read, {kept:,} kept, {empty:,} with an empty side skipped, "
        f"{long:,} over {data.max_length} tokens dropped"
    )
    if not kept:
        raise UserError(f"nothing to use in this corpus: {summary}")
    logger.info("%s", summary)
    return {"read": read, "kept": kept, "empty": empty, "long": long}
