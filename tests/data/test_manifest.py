"""Damaged files of a prepared corpus: found, reported and written again."""

import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from configs.base import Config, base_config
from data import manifest
from data.store import Prepared
from data.translation import TranslationCorpus
from errors import UserError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path: Path) -> Config:
    """The settings of a small corpus with a word vocabulary and a SentencePiece vocabulary."""
    data: Config = base_config().data
    data.update({"dir": str(tmp_path), "cache": str(tmp_path / "cache")})
    data.source_vocab.tokenizer = "split"
    data.target_vocab.update({"kind": "bpe", "size": 20})
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.en").write_text("the cat\nthe dog\n")
        (tmp_path / f"{split}.de").write_text("die Katze\nder Hund\n")
    return data


def content(prepared: Prepared) -> list:
    """Return all values and texts of a corpus, and all tokens of its vocabularies."""
    found: list = [
        [vocabulary.token(i) for i in range(len(vocabulary))]
        for vocabulary in prepared.vocabularies.values()
    ]
    for name in ("train", "valid", "test"):
        split = prepared.split(name)
        examples = split.examples(np.arange(len(split)))
        found += [{field: x.tolist() for field, x in example.items()} for example in examples]
        found += split.texts() if name != "train" else []
    return found


def flip(path: Path, rng: random.Random) -> None:
    values = bytearray(path.read_bytes())
    values[rng.randrange(len(values))] ^= 1 << rng.randrange(8)
    path.write_bytes(values)


DAMAGES: dict[str, Callable[[Path, random.Random], object]] = {
    "empty": lambda path, rng: path.write_bytes(b""),
    "half": lambda path, rng: os.truncate(path, path.stat().st_size // 2),
    "zeros": lambda path, rng: path.write_bytes(bytes(path.stat().st_size)),
    "flipped bit": flip,
    "removed": lambda path, rng: path.unlink(),
}


def test_damaged_files_are_reported_and_prepared_again(
    data: Config, caplog: pytest.LogCaptureFixture
) -> None:
    rng, corpus = random.Random(28), TranslationCorpus(data)
    first = corpus.prepare()
    expected, names = content(first), sorted(path.name for path in first.folder.iterdir())
    assert len(names) == 15 and manifest.VERIFIED in names
    for name in names:
        caplog.clear()
        DAMAGES[rng.choice([*DAMAGES])](first.folder / name, rng)
        assert content(corpus.prepare()) == expected
        if name != manifest.VERIFIED:  # a damaged verified.json only causes a comparison of digests
            (warning,) = (r.message for r in caplog.records if r.levelname == "WARNING")
            assert str(first.folder / name) in warning and "prepared again" in warning
        assert sorted(path.name for path in first.folder.iterdir()) == names
    assert sorted(path.suffix for path in Path(data.cache).iterdir()) == ["", ".lock"]


def test_digests_are_compared_once_per_machine(
    data: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    digest = manifest.digest
    monkeypatch.setattr(
        manifest, "digest", lambda path, remedy: compared.append(path.name) or digest(path, remedy)
    )
    folder = TranslationCorpus(data).prepare().folder
    TranslationCorpus(data).prepare()
    assert not compared
    (folder / "train.source.bin").touch()  # such as by a copy of the folder
    for _ in range(2):
        TranslationCorpus(data).prepare()
        assert len(compared) == 13
    monkeypatch.setattr("platform.node", lambda: "another")
    for _ in range(2):
        TranslationCorpus(data).prepare()
        assert len(compared) == 26
    monkeypatch.setattr(manifest, "write_text", lambda *_: os.open("/proc/nothing", os.O_CREAT))
    (folder / "train.source.bin").touch()
    TranslationCorpus(data).prepare()  # also if the cache is read-only
    assert len(compared) == 39


def test_a_changed_file_with_its_old_time_is_found(data: Config) -> None:
    folder = TranslationCorpus(data).prepare().folder
    path, before = folder / "valid.target.bin", (folder / "valid.target.bin").stat()
    flip(path, random.Random(0))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    cache_key = TranslationCorpus(data).cache_key()
    assert manifest.damage(folder, cache_key).startswith(f"{path} is corrupt (its SHA-256 differs")


def test_a_change_in_the_last_tick_of_the_clock_is_found(
    data: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, key = TranslationCorpus(data).prepare().folder, TranslationCorpus(data).cache_key()
    path = folder / "valid.target.bin"
    (folder / manifest.VERIFIED).unlink()
    # The files keep their times during the wait, as they do within one tick.
    monkeypatch.setattr(manifest, "_state", lambda path: [path.stat().st_size, 0, 0, 0])
    monkeypatch.setattr("time.sleep", lambda _: flip(path, random.Random(0)))
    assert manifest.damage(folder, key).startswith(f"{path} is corrupt (its SHA-256 differs")
    (folder / manifest.MANIFEST).unlink()
    manifest.write_manifest(folder, {"cache_key": key})
    monkeypatch.setattr("time.sleep", lambda _: None)
    (folder / manifest.VERIFIED).unlink()
    assert not manifest.damage(folder, key)


def test_a_manifest_without_files_is_written(tmp_path: Path) -> None:
    manifest.write_manifest(tmp_path, {"cache_key": {}})
    assert not manifest.damage(tmp_path, {})


def test_the_manifest_of_another_corpus_is_refused(data: Config) -> None:
    folder, key = TranslationCorpus(data).prepare().folder, TranslationCorpus(data).cache_key()
    assert not manifest.damage(folder, key)
    assert "belongs to another corpus" in manifest.damage(folder, key | {"format": 0})
    path = folder / manifest.MANIFEST
    changed = json.loads(path.read_text())
    changed["counts"]["train"]["read"] += 1
    path.write_text(json.dumps(changed))
    assert "does not match its digest" in manifest.damage(folder, key)


def test_errors_for_damaged_vocabularies(data: Config) -> None:
    corpus, facts = TranslationCorpus(data), {"source.vocab": "<pad> <s>", "target.vocab": "Piece"}
    for name, fact in facts.items():
        for damage in ("empty", "half", "zeros", "removed"):
            folder = corpus.prepare().folder
            DAMAGES[damage](folder / name, random.Random(0))
            with pytest.raises(UserError, match=rf"{name} (is corrupt|does not exist)") as caught:
                corpus.open(folder)  # unlike `prepare`, this function does not read the manifest
            assert damage != "zeros" or fact in str(caught.value) or "incomplete" in str(caught)


def test_error_for_missing_texts(data: Config) -> None:
    split = TranslationCorpus(data).prepare().split("test")
    split._texts.write_bytes(b"")
    with pytest.raises(UserError, match=r"test\.jsonl is missing or corrupt"):
        split.texts()


def test_error_for_a_file_in_place_of_the_folder(data: Config) -> None:
    folder = TranslationCorpus(data).prepare().folder
    folder.rename(folder.with_name("moved"))
    folder.touch()
    with pytest.raises(
        UserError, match=rf"cannot read {folder}.* \(Not a directory\).*data\.cache"
    ):
        TranslationCorpus(data).prepare()


@pytest.mark.parametrize("change", [{"source": "x/../../y"}, {"target": "/y"}], ids=str)
def test_error_for_a_name_outside_the_cache(data: Config, change: dict) -> None:
    data.update(change)
    with pytest.raises(UserError, match=r"cannot be part of a file name in data\.cache"):
        TranslationCorpus(data).prepare()


def test_processes_that_find_damage_prepare_a_corpus_once(data: Config) -> None:
    folder = TranslationCorpus(data).prepare().folder
    (folder / "train.lengths.npy").unlink()
    program = (
        "import json, logging, sys; from ml_collections import ConfigDict; "
        "from data.translation import TranslationCorpus; "
        "logging.basicConfig(level=logging.INFO, format='%(message)s'); "
        "TranslationCorpus(ConfigDict(json.loads(sys.argv[1]))).prepare().split('train')"
    )
    command = [sys.executable, "-c", program, data.to_json()]
    pipes = {"stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    logs = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], logs
    assert "".join(logs).count("prepared again") == 1


def test_verifying_a_large_corpus_is_logged(
    data: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = TranslationCorpus(data).prepare().folder
    (folder / manifest.VERIFIED).unlink()
    monkeypatch.setattr(manifest, "_LARGE", 1)
    with caplog.at_level(logging.INFO, "alignax"):
        TranslationCorpus(data).prepare()
    assert caplog.messages == [f"verifying the prepared corpus {folder} once (0.0 GB)"]
