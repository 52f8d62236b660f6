"""A corpus, prepared once: vocabularies, token ids in ArrayRecord, texts to score against.

The result lies in a folder of the cache whose name is a digest of all that shaped it. A folder
is made beside it and renamed when complete, under a lock, so that a reader never meets half a
corpus and two processes that start together do the work once.

    train.array_record   a record a pair: its source length, source ids, target ids (uint32)
    train.lengths.npy    source and target length of every pair, for the buckets
    valid.jsonl          source, target and gold alignment as text (not for train)
    source.vocab         vocabularies (target.vocab is absent when they are shared)
    manifest.json        what shaped it, and what was kept, skipped and dropped
"""

import array
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter
from ml_collections import ConfigDict
from tqdm import tqdm

from configs.base import Config
from data.corpora import SPLITS, local_files, read_pairs
from data.pair import Pair
from data.vocabulary import VOCABULARIES, Vocabulary
from errors import UserError

logger = logging.getLogger("alignax")
FORMAT = 1  # of the files above; a higher number makes every cache anew
SHAPING = (  # the fields of config.data that decide what is prepared,
    "corpus", "source", "target", "splits", "files", "holdout", "max_length",
    "source_vocab", "target_vocab", "shared_vocab", "alignment", "alignment_base",
    "alignment_order",
)  # fmt: skip
SHAPING_OF = {"dates": ("seed", "examples"), "tfds": ("name", "dir")}  # and those of one corpus


class Split:
    """The pairs of one split: lengths in memory, ids read from disk when asked for."""

    def __init__(self, folder: Path, name: str):
        self.lengths = np.load(folder / f"{name}.lengths.npy")
        self._texts = folder / f"{name}.jsonl"
        # Random access only, so reading ahead would be for nothing.
        self._reader = ArrayRecordReader(
            str(folder / f"{name}.array_record"), "readahead_buffer_size:0,max_parallelism:0"
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def ids(self, indices: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Source and target ids of the pairs at `indices`."""
        # One by one: read(list) takes time and memory by the size of the whole file.
        found = (self._reader.read(i, i + 1)[0] for i in indices.tolist())
        records = [np.frombuffer(record, np.uint32) for record in found]
        return [(r[1 : 1 + r[0]], r[1 + r[0] :]) for r in records]

    def texts(self) -> list[Pair]:
        with self._texts.open(encoding="utf-8") as lines:
            return [Pair(**json.loads(line)) for line in lines]


class Prepared(NamedTuple):
    folder: Path
    source: Vocabulary
    target: Vocabulary

    def copy_vocabularies(self, folder: Path) -> None:
        """For a translator that should not need the corpus it was trained on."""
        folder.mkdir(exist_ok=True)
        for path in self.folder.glob("*.vocab"):
            shutil.copy(path, folder)

    def split(self, name: str) -> Split:
        if not (self.folder / f"{name}.array_record").exists():
            raise UserError(f"this corpus has no split {name!r}: name one in data.splits.{name}")
        return Split(self.folder, name)


def prepare(data: Config) -> Prepared:
    """The prepared form of the corpus that `data` describes, made now if the cache lacks it."""
    own = SHAPING_OF.get(data.corpus, ())
    shape = {name: data[name] for name in (*SHAPING, *own)}
    shape = json.loads(ConfigDict(shape).to_json()) | {"format": FORMAT}
    key = json.dumps([shape, [_fingerprint(path) for path in local_files(data)]], sort_keys=True)
    label = f"{data.corpus}-{data.source}-{data.target}"
    folder = Path(data.cache) / f"{label}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(folder.name + ".lock")):
            if not folder.is_dir():
                _make(data, shape, folder)
    return Prepared(folder, *_load_vocabularies(data, folder))


def only_vocabularies(data: Config, folder: Path) -> Prepared:
    """What `Prepared.copy_vocabularies` left there: no splits, but all that translating needs."""
    if not (folder / "source.vocab").exists():
        raise UserError(f"{folder} holds no vocabularies: it is no folder of a translation run")
    return Prepared(folder, *_load_vocabularies(data, folder))


def _fingerprint(path: Path) -> list[str]:
    """A file by its name and content: dates and folders change when a corpus is copied."""
    with path.open("rb") as file:
        return [path.name, hashlib.file_digest(file, "sha256").hexdigest()]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("another process prepares this corpus: waiting for it (%s)", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file releases the lock


def _make(data: Config, shape: dict, folder: Path) -> None:
    scratch = folder.with_name(folder.name + ".unfinished")  # one at a time: we hold the lock
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        _learn_vocabularies(data, scratch)
        source, target = _load_vocabularies(data, scratch)
        splits = [name for name in SPLITS if name != "test" or data.splits.test]
        counts = {name: _write(data, name, source, target, scratch) for name in splits}
        sizes = {"source": len(source), "target": len(target)}
        manifest = {"shape": shape, "counts": counts, "vocabulary": sizes}
        (scratch / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
        os.replace(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _sides(data: Config) -> list[tuple[str, Config, str]]:
    source = ("source", data.source_vocab, data.source)
    return [source] if data.shared_vocab else [source, ("target", data.target_vocab, data.target)]


def _learn_vocabularies(data: Config, folder: Path) -> None:
    for side, settings, language in _sides(data):

        def texts(side: str = side, language: str = language) -> Iterator[str]:
            for pair in _progress(read_pairs(data, "train"), f"vocabulary ({language})"):
                if data.shared_vocab:
                    yield from pair[:2]
                else:
                    yield getattr(pair, side)

        VOCABULARIES[settings.kind].learn(texts(), settings, language).save(
            folder / f"{side}.vocab"
        )


def _load_vocabularies(data: Config, folder: Path) -> tuple[Vocabulary, Vocabulary]:
    def load(side: str, settings: Config, language: str) -> Vocabulary:
        return VOCABULARIES[settings.kind].load(folder / f"{side}.vocab", settings, language)

    source, *rest = _sides(data)
    # A shared vocabulary still tokenises each language by its own rules.
    target = rest[0] if rest else (*source[:2], data.target)
    return load(*source), load(*target)


def _write(
    data: Config, split: str, source: Vocabulary, target: Vocabulary, folder: Path
) -> dict[str, int]:
    """Writes one split. Only training leaves long pairs out: scores are of whole test sets."""
    read = kept = empty = long = 0
    lengths = array.array("i")
    writer = ArrayRecordWriter(str(folder / f"{split}.array_record"), "group_size:1,uncompressed")
    with contextlib.ExitStack() as stack:
        stack.callback(writer.close)
        texts = None
        if split != "train":
            texts = stack.enter_context((folder / f"{split}.jsonl").open("w", encoding="utf-8"))
        for pair in _progress(read_pairs(data, split), split):
            read += 1
            x, y = source.encode(pair.source), target.encode(pair.target)
            if not x or not y:
                empty += 1
            elif split == "train" and max(len(x), len(y)) > data.max_length:
                long += 1
            else:
                kept += 1
                lengths.extend((len(x), len(y)))
                writer.write(np.array([len(x), *x, *y], np.uint32).tobytes())
                if texts:
                    texts.write(json.dumps(pair._asdict(), ensure_ascii=False) + "\n")
    summary = (
        f"{split}: {read:,} pairs read, {kept:,} kept, {empty:,} with an empty side skipped, "
        f"{long:,} over {data.max_length} tokens dropped"
    )
    if not kept:
        raise UserError(f"nothing to use in this corpus: {summary}")
    logger.info("%s", summary)
    np.save(folder / f"{split}.lengths.npy", np.array(lengths, np.int32).reshape(-1, 2))
    return {"read": read, "kept": kept, "empty": empty, "long": long}


def _progress(pairs: Iterator[Pair], label: str) -> Iterator[Pair]:
    yield from tqdm(
        pairs, desc=f"preparing {label}", unit=" pairs", mininterval=1.0, leave=False, disable=None
    )
