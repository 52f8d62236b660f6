"""Where sentence pairs come from: the embedded corpus, local files, the TFDS catalogue.

Each corpus is a function from the `data` part of a config and a split's own name to a stream of
pairs. Nothing is held in memory.
"""

import collections
import gzip
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from configs.base import Config
from data.pair import Pair
from errors import UserError

SPLITS = ("train", "valid", "test")


def read_pairs(data: Config, split: str) -> Iterator[Pair]:
    """The pairs of a split ("train", "valid" or "test"), whatever the corpus calls it.

    A corpus without a validation split (`data.splits.valid = ""`) gives one in `data.holdout`
    of its training sources for it, with all their translations.
    """
    read = CORPORA[data.corpus]
    if data.splits.valid or split == "test":
        yield from read(data, data.splits[split])
    else:
        for pair in read(data, data.splits.train):
            held_out = zlib.crc32(pair.source.encode()) % data.holdout == 0
            if held_out == (split == "valid"):
                yield pair


def local_files(data: Config) -> list[Path]:
    """The files a corpus is read from, for the cache to know when they change."""
    if data.corpus not in ("text", "tsv"):
        return []
    languages = (data.source, data.target) if data.corpus == "text" else ("",)
    names = [name for name in data.splits.values() if name]
    files = [_find(data, split, language) for split in names for language in languages]
    if data.alignment and data.splits.test:
        files.append(_find(data, data.splits.test, "", data.alignment))
    return files


def _dates(data: Config, split: str) -> Iterator[Pair]:
    from data import dates  # brings Babel's locales, which no other corpus needs

    try:
        endless = dates.examples(split, source=data.source, target=data.target, seed=data.seed)
        yield from itertools.islice(endless, data.examples[split])
    except ValueError as error:
        raise UserError(str(error)) from None


def _text(data: Config, split: str) -> Iterator[Pair]:
    paths = [_find(data, split, language) for language in (data.source, data.target)]
    sides, links = [_lines(path) for path in paths], _gold_links(data, split)
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
    path = _find(data, split, "", data.alignment)
    found: dict[int, list[str]] = collections.defaultdict(list)
    base, turn = data.alignment_base, data.alignment_order == "target-source"

    def link(ends: Iterable[str], mark: str) -> str:
        source, target = (int(end) - base for end in ends)
        if min(source, target) < 0:
            raise ValueError("a number before the first")
        return f"{target}{mark}{source}" if turn else f"{source}{mark}{target}"

    for number, line in enumerate(_lines(path)):
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
    path = _find(data, split, "")
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            yield Pair("", "")
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise UserError(f"{path}, line {number}: two columns parted by a tab are wanted")
        yield Pair(columns[0].strip(), columns[1].strip())


def _tfds(data: Config, split: str) -> Iterator[Pair]:
    import tensorflow_datasets as tfds
    import tensorflow_datasets.translate

    try:
        folder: Any = data.dir or None
        builder: Any = tfds.builder(data.name, data_dir=folder, file_format="array_record")
    except tfds.core.DatasetNotFoundError:
        raise UserError(
            f"TFDS has no dataset {data.name!r}: data.name wants a catalogue name such as "
            "wmt14_translate/de-en"
        ) from None
    except ValueError:
        name, _, config = data.name.partition("/")
        configs = tfds.builder_cls(name).builder_configs
        if config in configs:
            raise
        raise UserError(
            f"TFDS dataset {name} has no config {config!r}: data.name can be "
            f"{', '.join(f'{name}/{known}' for known in configs) or name}"
        ) from None
    try:
        builder.download_and_prepare()  # nothing to do where it is prepared already
    except OSError as error:
        raise UserError(
            f"TFDS could not fetch {data.name} ({error}): prepare it where there is a network and "
            "name that folder with --config.data.dir"
        ) from None
    splits = builder.info.splits or {}
    if split not in splits:
        raise UserError(
            f"TFDS dataset {data.name} has no split {split!r}: "
            f"data.splits can name {', '.join(splits)}"
        )
    languages = sorted(builder.info.features or ())
    for language in (data.source, data.target):
        if language not in languages:
            raise UserError(
                f"TFDS dataset {data.name} has no language {language!r}: "
                f"data.source and data.target can be {', '.join(languages)}"
            )
    for example in builder.as_data_source(split):
        texts = (example[language].decode() for language in (data.source, data.target))
        yield Pair(*(text.replace("\n", " ").strip() for text in texts))


CORPORA: dict[str, Callable[[Config, str], Iterator[Pair]]] = {
    "dates": _dates,
    "text": _text,
    "tsv": _tsv,
    "tfds": _tfds,
}

_OPENERS: dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def _find(data: Config, split: str, language: str, pattern: str = "") -> Path:
    folder = Path(data.dir)
    if not folder.is_dir():
        raise UserError(
            f"corpus folder {folder} does not exist: name your copy with --config.data.dir=FOLDER"
        )
    pattern = pattern or data.files
    try:
        name = pattern.format(split=split, lang=language)
    except (KeyError, IndexError, ValueError):
        raise UserError(
            f"config.data's {pattern!r} cannot name files: it may use {{split}} and {{lang}}"
        ) from None
    for suffix in _OPENERS:
        if (folder / (name + suffix)).is_file():
            return folder / (name + suffix)
    present = sorted(path.name for path in folder.iterdir() if path.is_file())
    raise UserError(
        f"{folder} has no file {name} (plain, .gz or .xz): data.splits and data.source/target make "
        f"that name; the folder holds {', '.join(present[:12]) or 'no files'}"
        + (", ..." if len(present) > 12 else "")
    )


def _lines(path: Path) -> Iterator[str]:
    number = 1
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            for line in file:
                yield line.decode("utf-8").rstrip("\r\n")
                number += 1
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: not valid UTF-8 (byte {error.start + 1}); "
            "convert the file, for example with iconv"
        ) from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{path} is damaged at line {number} ({error}): fetch it anew") from None
