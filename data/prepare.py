"""Sentence pairs, prepared: vocabularies, token ids that end in </s>, texts to score against."""

import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configs.base import Config
from data.corpora import local_files, read_pairs
from data.files import SPLITS
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
SHAPING_OF = {"dates": ("seed", "examples"), "tfds": ("name", "dir")}  # and those of one corpus


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
    splits = [name for name in SPLITS if name != "test" or data.splits.test]
    counts = {name: _write(data, name, vocabularies, folder) for name in splits}
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
