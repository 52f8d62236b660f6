"""Corpus preparation: the cache, dropped examples, failures and concurrent processes."""

import gzip
import json
import logging
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from ml_collections import ConfigDict

from configs.base import Config, base_config
from data import translation
from data.classification import ClassificationCorpus
from data.cloze import ClozeCorpus
from data.corpus import NOT_IN_CACHE_KEY
from data.files import find, lines
from data.labelling import LabellingCorpus
from data.pair import Pair
from data.store import Prepared
from data.translation import TranslationCorpus
from data.vocabulary import EOS, UNK
from errors import UserError

ROOT = Path(__file__).parents[2]
TEXTS = {
    "train": [
        ("the cat sleeps", "die Katze schläft"),
        ("", "leer"),
        ("the dog sleeps", "der Hund schläft"),
        ("one two three four five six", "zu lang"),
        ("too long", "eins zwei drei vier fünf sechs"),
        (" \u2028 ", ""),
        ("one two three four five", "eins zwei drei vier fünf"),
    ],
    "valid": [("the bird sleeps", "der Vogel schläft"), ("void", "")],
    "test": [("one two three four five six seven", "der Hund"), ("dog", "Hund")],
}


@pytest.fixture
def data(tmp_path: Path) -> Config:
    """The settings of a small corpus of parallel text."""
    data: Config = base_config().data
    data.update({"dir": str(tmp_path / "corpus"), "cache": str(tmp_path / "cache")})
    data.update({"max_length": 5})
    data.source_vocab.tokenizer = data.target_vocab.tokenizer = "split"
    (tmp_path / "corpus").mkdir()
    for split, pairs in TEXTS.items():
        for language, side in (("en", 0), ("de", 1)):
            lines = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / "corpus" / f"{split}.{language}").write_text(lines, "utf-8")
    return data


@pytest.fixture
def dates(tmp_path: Path) -> Config:
    """The settings of a small dates corpus."""
    data: Config = base_config().data
    data.update({"corpus": "dates", "cache": str(tmp_path / "cache")})
    data.update({"examples": {"train": 200, "valid": 30, "test": 20}})
    data.source_vocab.tokenizer = data.target_vocab.tokenizer = "unicode"
    return data


def decoded(prepared: Prepared, name: str) -> list[tuple[str, str]]:
    split = prepared.split(name)
    examples = list(split.examples(np.arange(len(split))))
    assert split.lengths.tolist() == [[len(x["source"]), len(x["target"])] for x in examples]
    assert all(ids[-1] == EOS for example in examples for ids in example.values())
    sides = [(prepared.vocabularies[side], side) for side in ("source", "target")]
    return [tuple(v.decode(example[side]) for v, side in sides) for example in examples]


def texts(prepared: Prepared, name: str) -> list[Pair]:
    return [Pair(**text) for text in prepared.split(name).texts()]


def manifest(prepared: Prepared) -> dict:
    return json.loads((prepared.folder / "manifest.json").read_text())


def flatten(data: Config) -> dict[str, object]:
    """Return the values of a config by dotted name."""
    leaves: dict[str, object] = {}
    for name, value in data.items():
        if isinstance(value, ConfigDict):
            leaves |= {f"{name}.{path}": leaf for path, leaf in flatten(value).items()}
        else:
            leaves[name] = value
    return leaves


def cached(data: Config) -> list[str]:
    return sorted(path.suffix or "folder" for path in Path(data.cache).iterdir())


def test_ids_decode_to_the_texts(data: Config) -> None:
    prepared = TranslationCorpus(data).prepare()
    kept = [TEXTS["train"][i] for i in (0, 2, 6)]
    assert decoded(prepared, "train") == kept
    assert decoded(prepared, "valid") == [("the ⁇ sleeps", "der ⁇ schläft")]
    assert decoded(prepared, "test") == [("one two three four five six ⁇", "der Hund"),
                                         ("dog", "Hund")]  # fmt: skip
    test = prepared.split("test")
    assert [x["source"].tolist() for x in test.examples(np.array([1, 0]))] == [
        [*prepared.vocabularies["source"].encode(text), EOS] for text, _ in reversed(TEXTS["test"])
    ]
    assert list(test.examples(np.array([], int))) == []


def test_dropped_examples_are_counted(data: Config, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "alignax"):
        prepared = TranslationCorpus(data).prepare()
    assert manifest(prepared)["counts"] == {
        "train": {"read": 7, "kept": 3, "empty": 2, "long": 2},
        "valid": {"read": 2, "kept": 1, "empty": 1, "long": 0},
        "test": {"read": 2, "kept": 2, "empty": 0, "long": 0},
    }
    sizes = {name: len(vocab) for name, vocab in prepared.vocabularies.items()}
    assert manifest(prepared)["vocabulary"] == sizes
    (summary,) = (line for line in caplog.messages if line.startswith("train: "))
    facts = r"train: 3 of 7 pairs kept, 2 .*empty.*, 2 .*data\.max_length"
    assert re.match(facts, summary)


def test_texts_are_stored_with_the_ids(data: Config, dates: Config) -> None:
    assert texts(TranslationCorpus(data).prepare(), "valid") == [
        Pair("the bird sleeps", "der Vogel schläft")
    ]
    prepared = TranslationCorpus(dates).prepare()
    for name, count in (("valid", 30), ("test", 20)):
        pairs = texts(prepared, name)
        assert pairs == list(TranslationCorpus(dates).read(name)) and len(pairs) == count
        assert all(pair.alignment for pair in pairs)
        assert len(prepared.split(name)) == count
    assert decoded(prepared, "train") == [
        pair[:2] for pair in TranslationCorpus(dates).read("train")
    ]


def test_a_shared_vocabulary_encodes_both_languages(data: Config) -> None:
    data.shared_vocab = True
    prepared = TranslationCorpus(data).prepare()
    assert len(prepared.vocabularies["source"]) == len(prepared.vocabularies["target"])
    text = "the dog schläft"
    assert prepared.vocabularies["source"].encode(text) == prepared.vocabularies["target"].encode(
        text
    )
    assert UNK not in prepared.vocabularies["source"].encode("the dog schläft")
    assert decoded(prepared, "train")[0] == TEXTS["train"][0]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sentencepiece_vocabularies_have_the_configured_size(dates: Config, kind: str) -> None:
    for vocab in (dates.source_vocab, dates.target_vocab):
        vocab.update({"kind": kind, "size": 110})
    prepared = TranslationCorpus(dates).prepare()
    assert manifest(prepared)["vocabulary"] == {"source": 110, "target": 110}
    assert decoded(prepared, "train") == [
        pair[:2] for pair in TranslationCorpus(dates).read("train")
    ]


def test_error_for_a_corpus_without_a_test_split(data: Config) -> None:
    data.splits.test = ""
    with pytest.raises(UserError, match=r"no split 'test': choose .*--split=valid.*--test"):
        TranslationCorpus(data).prepare().split("test")


def test_validation_examples_are_held_out(data: Config) -> None:
    data.update({"splits": {"valid": ""}, "holdout": 2})
    prepared = TranslationCorpus(data).prepare()
    assert len(decoded(prepared, "train")) + len(decoded(prepared, "valid")) >= 3
    assert sum(manifest(prepared)["counts"][split]["read"] for split in ("train", "valid")) == 7


@pytest.mark.parametrize("split", ["train", "test"])
def test_error_for_an_empty_split(data: Config, split: str) -> None:
    for language in ("en", "de"):
        (Path(data.dir) / f"{split}.{language}").write_text("\n")
    with pytest.raises(
        UserError, match=rf"'{split}' .*0 of 1 pairs kept, 1 .*empty.*data\.splits\.{split}"
    ):
        TranslationCorpus(data).prepare()
    assert cached(data) == [".lock"]


def test_error_for_a_holdout_without_examples(data: Config) -> None:
    data.update({"splits": {"valid": ""}, "holdout": 10_000})
    with pytest.raises(UserError, match=r"'valid' .*0 of 2 pairs kept.*data\.holdout=10000"):
        TranslationCorpus(data).prepare()


def test_error_for_a_cache_that_cannot_be_written(data: Config, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    data.cache = str(tmp_path / "file" / "cache")
    with pytest.raises(UserError, match=rf"{data.cache} .*Not a directory.*data\.cache"):
        TranslationCorpus(data).prepare()


def test_the_cache_is_reused(data: Config, caplog: pytest.LogCaptureFixture) -> None:
    def state() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in Path(data.cache).rglob("*")}

    first = TranslationCorpus(data).prepare()
    before = state()
    with caplog.at_level(logging.INFO, "alignax"):
        again = TranslationCorpus(data).prepare()
    assert again.folder == first.folder and state() == before
    assert not caplog.messages
    assert decoded(again, "test") == decoded(first, "test")


def test_the_cache_does_not_depend_on_the_location_of_the_corpus(
    data: Config, tmp_path: Path
) -> None:
    first = TranslationCorpus(data).prepare()
    Path(data.dir).rename(tmp_path / "elsewhere")
    data.dir = str(tmp_path / "elsewhere")
    assert TranslationCorpus(data).prepare().folder == first.folder


@pytest.mark.parametrize(
    "change",
    [
        {"max_length": 6},
        {"source": "de", "target": "en"},
        {"source_vocab": {"lowercase": True}},
        {"target_vocab": {"size": 3}},
        {"shared_vocab": True},
        {"splits": {"test": "valid"}},
    ],
    ids=str,
)
def test_a_changed_setting_changes_the_cache_folder(data: Config, change: dict) -> None:
    first = TranslationCorpus(data).prepare()
    data.update(change)
    assert TranslationCorpus(data).prepare().folder != first.folder
    assert cached(data) == [".lock", ".lock", "folder", "folder"]


CORPORA = {  # maps a model name to the corpus class and data.corpus of its task
    "seq2seq": (TranslationCorpus, "dates"),
    "tagger": (LabellingCorpus, "series"),
    "sentence": (ClassificationCorpus, "tfds"),
    "reader": (ClozeCorpus, "cbt"),
}
DATA_FIELDS = [
    (model, path)
    for model in CORPORA
    for path in flatten(base_config(model).data)
    if path != "corpus"
]


@pytest.mark.parametrize(("model", "path"), DATA_FIELDS, ids=".".join)
def test_every_field_is_in_the_cache_key_unless_it_is_excluded(
    model: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in ("split_files", "catalog_files"):
        monkeypatch.setattr(f"data.corpus.{function}", lambda *_: [])
    corpus, name = CORPORA[model]
    data = base_config(model).data
    data.corpus = name
    before = corpus(data).cache_key()
    old = flatten(data)[path]
    changed = {
        bool: lambda x: not x,
        str: "{}x".format,
        int: lambda x: x + 1,
        float: lambda x: x + 1,
    }
    data.update_from_flattened_dict({path: changed.get(type(old), lambda x: (*x, "x"))(old)})
    assert (corpus(data).cache_key() == before) == (path in NOT_IN_CACHE_KEY)


def test_fields_excluded_from_the_cache_key_exist() -> None:
    fields = {path for model in CORPORA for path in flatten(base_config(model).data)}
    assert set(NOT_IN_CACHE_KEY) <= fields


def test_a_format_can_be_added_with_a_reader(data: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def semicolons(data: Config, split: str) -> Iterator[Pair]:
        for line in lines(find(data, split)):
            yield Pair(*line.split(";"))

    for split in ("train", "valid", "test"):
        (Path(data.dir) / f"{split}.txt").write_text("a cat;eine Katze\n")
    monkeypatch.setitem(translation.CORPORA, "semicolons", semicolons)
    data.update({"corpus": "semicolons", "files": "{split}.txt"})
    first = TranslationCorpus(data).prepare()
    assert decoded(first, "train") == [("a cat", "eine Katze")]
    (Path(data.dir) / "train.txt").write_text("a dog;ein Hund\n")
    assert TranslationCorpus(data).prepare().folder != first.folder


@pytest.mark.parametrize("name", ["train.en", "valid.de", "test.en"])
@pytest.mark.parametrize("grow", [True, False])
def test_a_changed_file_changes_the_cache_folder(data: Config, name: str, grow: bool) -> None:
    first = TranslationCorpus(data).prepare()
    path = Path(data.dir) / name
    text = path.read_text()
    path.write_text(text.replace("e", "ee" if grow else "o"))
    second = TranslationCorpus(data).prepare()
    assert second.folder != first.folder
    assert decoded(second, "train") != decoded(first, "train") or not name.startswith("train")
    path.write_text(text)
    assert TranslationCorpus(data).prepare().folder == first.folder


def break_lines(path: Path) -> None:
    path.write_text(path.read_text() + "one more\n")


def break_utf8(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"\xff\n")


def break_gzip(path: Path) -> None:
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes())[:-9])
    path.unlink()


@pytest.mark.parametrize("kind", ["words", "bpe"])
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_lines, r"test.en has 2 lines and .*test.de has 3|train.en has 7 .*train.de has 8"),
        (break_utf8, r"(test.de, line 2|train.de, line 7): not valid UTF-8"),
        (break_gzip, r"(test|train).de.gz is corrupt at line"),
    ],
)
def test_an_error_leaves_only_the_lock_file(
    data: Config, kind: str, split: str, damage, message: str
) -> None:
    data.source_vocab.update({"kind": kind, "size": 50})
    data.target_vocab.update({"kind": kind, "size": 50})
    path = Path(data.dir) / f"{split}.de"
    whole = path.read_bytes()
    damage(path)
    with pytest.raises(UserError, match=message):
        TranslationCorpus(data).prepare()
    assert cached(data) == [".lock"]
    path.write_bytes(whole)  # undo `damage`; a corrupt .gz file that it wrote is ignored now
    assert decoded(TranslationCorpus(data).prepare(), "test")


# Tests of concurrent processes that prepare the same corpus

PREPARE = """
import logging
import sys

from configs.base import base_config
from data.translation import TranslationCorpus

logging.basicConfig(level=logging.INFO, format="%(message)s")
data = base_config().data
data.update({"corpus": "dates", "cache": sys.argv[1]})
data.update({"examples": {"train": 1500, "valid": 30, "test": 20}})
data.source_vocab.tokenizer = data.target_vocab.tokenizer = "unicode"
print("ready", flush=True)
sys.stdin.readline()
print(TranslationCorpus(data).prepare().folder)
"""


@pytest.fixture
def start(dates: Config) -> Iterator[Callable[[], subprocess.Popen]]:
    """Return a function that starts a process; the process prepares `dates` when `go` is called."""
    processes = []

    def start() -> subprocess.Popen:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        command = [sys.executable, "-c", PREPARE, dates.cache]
        processes.append(process := subprocess.Popen(command, cwd=ROOT, text=True, **pipes))
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def go(process) -> None:
    """Tell a process from `start` to prepare the corpus."""
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for(data: Config, name: str) -> None:
    """Wait at most 30 seconds until the cache has a file whose name matches the pattern `name`."""
    deadline = time.monotonic() + 30
    while not list(Path(data.cache).glob(name)) and time.monotonic() < deadline:
        time.sleep(0.005)


def test_two_processes_prepare_a_corpus_once(dates: Config, start) -> None:
    one, other = start(), start()
    go(one)
    wait_for(dates, "*.unfinished")
    one.send_signal(signal.SIGSTOP)  # stop `one` while it holds the lock, so `other` must wait
    go(other)
    waiting = other.stderr.readline()
    one.send_signal(signal.SIGCONT)
    (folder, log), (same, other_log) = (p.communicate(timeout=30) for p in (one, other))

    assert "waiting for another process" in waiting and ".lock" in waiting
    assert one.returncode == other.returncode == 0 and folder == same
    assert "train: 1,500 of 1,500 pairs kept\n" in log and "pairs kept" not in other_log
    assert cached(dates) == [".lock", "folder"]
    dates.examples.train = 1500
    prepared = TranslationCorpus(dates).prepare()
    assert str(prepared.folder) == folder.strip()
    assert decoded(prepared, "train") == [
        pair[:2] for pair in TranslationCorpus(dates).read("train")
    ]


def test_files_of_a_killed_process_are_deleted(dates: Config, start) -> None:
    process = start()
    go(process)
    wait_for(dates, "*.unfinished/source.vocab")
    process.kill()
    process.wait()
    assert cached(dates) == [".lock", ".unfinished"]
    (left,) = Path(dates.cache).glob("*.unfinished")
    (left / "stray").touch()

    dates.examples.train = 1500
    prepared = TranslationCorpus(dates).prepare()
    assert prepared.folder == left.with_suffix("")
    assert cached(dates) == [".lock", "folder"]
    assert len(decoded(prepared, "train")) == 1500
    assert not (prepared.folder / "stray").exists()
