"""Where sentence pairs come from: the embedded corpus, local files, the TFDS catalogue.

Each corpus is a function from the `data` part of a config and a split's own name to a stream of
pairs. Nothing is held in memory.
"""

import gzip
import itertools
import lzma
import zlib
from collections.abc import Callable, Iterator
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
    return [_find(data, split, language) for split in names for language in languages]


def _dates(data: Config, split: str) -> Iterator[Pair]:
    from data import dates  # brings Babel's locales, which no other corpus needs

    # The gold alignment counts the tokens of one tokenizer.
    sides = (data.source_vocab, data.source_vocab if data.shared_vocab else data.target_vocab)
    counts_tokens = all((side.kind, side.tokenizer) == ("words", "unicode") for side in sides)
    try:
        endless = dates.examples(split, source=data.source, target=data.target, seed=data.seed)
        for pair in itertools.islice(endless, data.examples[split]):
            yield pair if counts_tokens else pair._replace(alignment="")
    except ValueError as error:
        raise UserError(str(error)) from None


def _text(data: Config, split: str) -> Iterator[Pair]:
    paths = [_find(data, split, language) for language in (data.source, data.target)]
    sides = [_lines(path) for path in paths]
    for number, (source, target) in enumerate(itertools.zip_longest(*sides)):
        if source is None or target is None:
            longer = number + 1 + sum(1 for side in sides for _ in side)
            counts = (number, longer) if source is None else (longer, number)
            raise UserError(
                f"{paths[0]} has {counts[0]:,} lines and {paths[1]} has {counts[1]:,}: "
                "parallel files need one line for each other, so find the line that slipped"
            )
        yield Pair(source.strip(), target.strip())


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


def _find(data: Config, split: str, language: str) -> Path:
    folder = Path(data.dir)
    if not folder.is_dir():
        raise UserError(
            f"corpus folder {folder} does not exist: name your copy with --config.data.dir=FOLDER"
        )
    try:
        name = data.files.format(split=split, lang=language)
    except (KeyError, IndexError, ValueError):
        raise UserError(
            f"config.data.files={data.files!r} cannot name files: it may use {{split}} and {{lang}}"
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
