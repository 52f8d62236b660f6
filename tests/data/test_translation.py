"""Translation corpora: formats, gold alignments and error messages."""

import errno
import gzip
import itertools
import lzma
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.base import Config, base_config
from configs.datasets import DATASETS
from configs.luong2015 import get_config
from data import files
from data.pair import Pair
from data.translation import TranslationCorpus
from errors import UserError

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
WRITERS: dict[str, Callable] = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def write(path: Path, *lines: str) -> None:
    with WRITERS.get(path.suffix, open)(path, "wb") as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def config(folder: Path, **changes) -> Config:
    data: Config = base_config().data
    data.update({"dir": str(folder), **changes})
    return data


def message(data: Config, split: str = "train") -> str:
    """Return the message of the error that reading a split raises."""
    with pytest.raises(UserError) as caught:
        list(TranslationCorpus(data).read(split))
    return str(caught.value)


# Tests of parallel text files


@pytest.mark.parametrize(("one", "other"), list(itertools.product(WRITERS, repeat=2)))
def test_text_files_can_be_plain_or_compressed(tmp_path: Path, one: str, other: str) -> None:
    write(tmp_path / f"train.en{one}", "a cat", "  tea\u2028time\t", "", "last\r")
    write(tmp_path / f"train.de{other}", "eine Katze", "Tee", "leer", "letzte")
    assert list(TranslationCorpus(config(tmp_path)).read("train")) == [
        Pair("a cat", "eine Katze"),
        Pair("tea\u2028time", "Tee"),  # U+2028 (line separator) does not split a sentence
        Pair("", "leer"),
        Pair("last", "letzte"),
    ]


def test_file_names_follow_the_pattern(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    write(tmp_path / "dev" / "corpus-pt_BR.txt.gz", "gato")
    write(tmp_path / "dev" / "corpus-eo.txt", "kato")
    data = config(tmp_path, source="pt_BR", target="eo", files="{split}/corpus-{lang}.txt")
    data.splits.update({"train": "", "valid": "dev", "test": ""})
    assert list(TranslationCorpus(data).read("valid")) == [Pair("gato", "kato")]
    files = TranslationCorpus(data).local_files()
    assert [path.name for path in files] == ["corpus-pt_BR.txt.gz", "corpus-eo.txt"]


def test_the_last_line_needs_no_line_end(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("a\nb")
    write(tmp_path / "train.de", "x", "y")
    assert len(list(TranslationCorpus(config(tmp_path)).read("train"))) == 2


@pytest.mark.parametrize(("source", "target"), [(3, 4), (4, 3), (2, 1207), (1207, 2), (0, 1)])
def test_error_for_different_numbers_of_lines(tmp_path: Path, source: int, target: int) -> None:
    write(tmp_path / "train.en", *["a"] * source)
    write(tmp_path / "train.de.gz", *["b"] * target)
    found = message(config(tmp_path))
    assert f"{tmp_path}/train.en has {source:,} lines" in found
    assert f"{tmp_path}/train.de.gz has {target:,}" in found


@pytest.mark.parametrize("suffix", WRITERS)
def test_error_for_invalid_utf8_names_line_and_byte(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "train.en", "one", "two", "three")
    with WRITERS[suffix](tmp_path / f"train.de{suffix}", "wb") as file:
        file.write("eins\nzw\u00f6i\n".encode() + "drü\n".encode("latin-1"))
    found = message(config(tmp_path))
    assert found.startswith(f"{tmp_path}/train.de{suffix}, line 3: not valid UTF-8 (byte 3 of")


def test_error_for_an_empty_split_names_its_files_and_the_way_without_it(tmp_path: Path) -> None:
    for split, text in (("train", "a b"), ("valid", "a b"), ("test", "")):
        write(tmp_path / f"{split}.en", text)
        write(tmp_path / f"{split}.de", text)
    expected = (
        f"check {tmp_path}/test.en and {tmp_path}/test.de and data.splits.test='test', or "
        "train without a test split: train.py --config.data.splits.test="
    )
    data = config(tmp_path, cache=f"{tmp_path}/cache")
    with pytest.raises(UserError, match=re.escape(expected)):
        TranslationCorpus(data).prepare()
    data.splits.test = ""
    assert len(TranslationCorpus(data).prepare().split("train")) == 1


def test_error_for_a_missing_folder(tmp_path: Path) -> None:
    found = message(config(tmp_path / "gone"))
    assert f"{tmp_path}/gone does not exist" in found and "--config.data.dir=" in found
    (tmp_path / "file").touch()
    assert f"{tmp_path}/file is a file" in message(config(tmp_path / "file"))


PLACEHOLDERS = ["{part}", "{split.foo}", "{0}", "{}", "{split!r}", "{split:999999999}", "{split"]


@pytest.mark.parametrize("pattern", PLACEHOLDERS)
def test_error_for_an_invalid_placeholder(tmp_path: Path, pattern: str) -> None:
    found = message(config(tmp_path, files=f"{pattern}.txt"))
    assert f"'{pattern}.txt'" in found and "{split} and {lang}" in found


@pytest.mark.parametrize(
    "change",
    [
        {"files": "/{split}.{lang}"},
        {"files": "../{split}.{lang}"},
        {"source": "x/../../y"},
        {"splits": {"train": "../train"}},
        {"links": "{split}.links a/../../{split}.links"},
    ],
    ids=str,
)
def test_error_for_a_name_outside_the_folder(tmp_path: Path, change: dict) -> None:
    write(tmp_path / "train.links", "")
    for language in ("en", "de"):
        write(tmp_path / f"train.{language}", "a")
    found = message(config(tmp_path, **change))
    assert "inside data.dir" in found and "data.files" in found


def test_error_for_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "train.en", "a")
    write(tmp_path / "train.de", "a")

    def deny(path: Path, mode: str) -> None:  # the administrator may read all files
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(files, "open", deny, raising=False)
    found = message(config(tmp_path))
    assert found.startswith(f"cannot read {tmp_path}/train.en (Permission denied): ")


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_byte_order_mark_is_skipped(tmp_path: Path, suffix: str) -> None:
    for language in ("en", "de"):
        with WRITERS[suffix](tmp_path / f"train.{language}{suffix}", "wb") as file:
            file.write("\ufeffMay\n\ufeffJune\n".encode())
    with WRITERS[suffix](tmp_path / f"train.links{suffix}", "wb") as file:
        file.write("\ufeff0-0\n\n".encode())
    data = config(tmp_path, links="{split}.links")
    first, second = TranslationCorpus(data).read("train")
    assert first == Pair("May", "May", links="0-0") and second.source == "\ufeffJune"


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"splits": {"train": "training"}}, "training.en"), ({"target": "fr"}, "train.fr")],
)
def test_error_for_a_missing_file_lists_the_folder(
    tmp_path: Path, changes: dict, name: str
) -> None:
    write(tmp_path / "train.en", "a")
    write(tmp_path / "train.de", "b")
    found = message(config(tmp_path, **changes))
    assert f"{tmp_path} has no file {name} " in found
    assert "data.files" in found and found.endswith("train.de, train.en")


def test_error_for_a_missing_validation_file_suggests_holding_out(tmp_path: Path) -> None:
    write(tmp_path / "train.en", "a")
    write(tmp_path / "train.de", "b")
    assert "--config.data.splits.valid= " in message(config(tmp_path), "valid")


def test_error_for_a_missing_file_shows_at_most_twelve_names(tmp_path: Path) -> None:
    assert message(config(tmp_path)).endswith("no files")
    for i in range(20):
        write(tmp_path / f"{i:02}.txt")
    assert message(config(tmp_path)).endswith("10.txt, 11.txt, ...")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_error_for_a_corrupt_compressed_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"train.en{suffix}"
    lines = [f"line {i * i}" for i in range(20_000)]
    write(tmp_path / "train.de", *lines)
    write(path, *lines)
    whole = path.read_bytes()
    for corrupt in (whole[: len(whole) // 2], whole[:5000] + b"?" * 99 + whole[5099:], b"text\n"):
        path.write_bytes(corrupt)
        assert re.match(rf"{path} is corrupt at line [\d]+ \(.+\): ", message(config(tmp_path)))


# Tests of TSV files


def test_tsv_files_have_the_pair_in_two_columns(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv.gz", "cat\tK AE1 T", "dog \t D AO1 G\tignored", "", "\tx", "y\t")
    data = config(tmp_path, corpus="tsv", files="{split}.tsv")
    assert list(TranslationCorpus(data).read("train")) == [
        Pair("cat", "K AE1 T"),
        Pair("dog", "D AO1 G"),
        Pair("", ""),
        Pair("", "x"),
        Pair("y", ""),
    ]


def test_error_for_a_tsv_line_with_one_column(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "cat\tK AE1 T", "dog D AO1 G")
    found = message(config(tmp_path, corpus="tsv", files="{split}.tsv"))
    assert found.startswith(f"{tmp_path}/train.tsv, line 2: ") and "two columns" in found


# Tests of validation examples that are held out from the training data


@pytest.mark.parametrize("holdout", [2, 10])
def test_pairs_with_the_same_source_are_held_out_together(tmp_path: Path, holdout: int) -> None:
    pairs = [(f"word{i % 703}", f"W {i}") for i in range(1000)]  # 297 sources occur twice
    write(tmp_path / "train.tsv", *map("\t".join, pairs))
    write(tmp_path / "test.tsv", "word1\tW 1")
    data = config(tmp_path, corpus="tsv", files="{split}.tsv", holdout=holdout)
    data.splits.valid = ""
    train, valid, test = (
        list(TranslationCorpus(data).read(split)) for split in ("train", "valid", "test")
    )
    assert not {p.source for p in train} & {p.source for p in valid}
    assert sorted(p[:2] for p in train + valid) == sorted(pairs)
    assert len({p.source for p in valid}) == pytest.approx(703 / holdout, rel=0.3)
    assert len(valid) > len({p.source for p in valid})
    assert test == [Pair("word1", "W 1")]


# Tests of the dates corpus


def test_dates_are_generated() -> None:
    data: Config = base_config().data
    data.update({"corpus": "dates", "examples": {"train": 30, "valid": 7, "test": 5}})
    data.source_vocab.tokenizer = data.target_vocab.tokenizer = "unicode"
    pairs = {
        split: list(TranslationCorpus(data).read(split)) for split in ("train", "valid", "test")
    }
    assert [*map(len, pairs.values())] == [30, 7, 5]
    assert all(pair.alignment for pair in pairs["valid"])
    data.seed = 1
    assert list(TranslationCorpus(data).read("train")) != pairs["train"]
    assert TranslationCorpus(data).local_files() == []


def test_error_for_dates_of_an_unknown_language_or_split() -> None:
    data: Config = base_config().data
    data.update({"corpus": "dates", "target": "xx"})
    assert "locale 'xx'" in message(data)
    data.update({"target": "de", "splits": {"valid": "dev"}})
    assert "split 'dev'" in message(data, "valid")


# Tests of corpora from TensorFlow Datasets (TFDS)

TINY = """
import sys

import tensorflow_datasets as tfds

from configs.base import base_config
from data.translation import TranslationCorpus
from errors import UserError


class TinyTranslate(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = tfds.features.Translation(languages=("de", "en"))
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(40), "validation": self._generate_examples(3)}

    def _generate_examples(self, count):
        print("GENERATED")
        for i in range(count):
            yield i, {"de": f"Größe {i}\\nzwei ", "en": f"size {i}"}


def show(**changes):
    data: Config = base_config().data
    data.update({"corpus": "tfds", "name": "tiny_translate", "dir": sys.argv[1]})
    data.update(changes)
    try:
        print(sorted(pair[:3] for pair in TranslationCorpus(data).read("train")))
    except UserError as error:
        print(error)


show()
show(source="de", target="en", splits={"train": "validation"})
show(splits={"train": "dev"})
show(source="fr")
show(name="tiny_translat")
show(name="wmt14_translate/en-de")
show(name="huggingface:tiny_translate")
show(name="foreign_features")
print("tensorflow" in sys.modules)
"""


def test_tfds_is_prepared_and_read_without_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    # A received dataset may name a module that TFDS would import, such as this one.
    (tmp_path / "foreign.py").write_text('print("IMPORTED")')
    received = tmp_path / "tfds" / "foreign_features" / "1.0.0"
    received.mkdir(parents=True)
    (received / "features.json").write_text('{"pythonClassName": "foreign.Feature"}')
    (received / "dataset_info.json").write_text(
        '{"name": "foreign_features", "version": "1.0.0", "fileFormat": "array_record"}'
    )
    result = subprocess.run(
        [sys.executable, tmp_path / "tiny.py", tmp_path / "tfds"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    skip = ("Downloading and preparing", "Dataset tiny_translate downloaded", "\x1b")
    lines = [line for line in result.stdout.splitlines() if not line.startswith(skip)]
    # TFDS generates each of the two splits once, because later reads use the files on disk.
    assert lines[:2] == ["GENERATED"] * 2
    train, valid, *errors, tensorflow = lines[2:]
    assert train == str(sorted((f"size {i}", f"Größe {i} zwei", "") for i in range(40)))
    assert valid == str([(f"Größe {i} zwei", f"size {i}", "") for i in range(3)])
    wmt = ", ".join(f"wmt14_translate/{code}-en" for code in ("cs", "de", "fr", "hi", "ru"))
    facts = [
        ("tiny_translate", "split 'dev'", "data.splits", "train, validation"),
        ("tiny_translate", "'fr'", "data.source", "de, en"),
        ("'tiny_translat'", "data.name", "wmt14_translate/de-en"),
        ("wmt14_translate", "config 'en-de'", "data.name", wmt),
        ("data.name='huggingface:tiny_translate'", "TFDS catalog"),
        ("features.json", "'foreign.Feature'", "is not loaded"),
    ]
    for error, needed in zip(errors, facts, strict=True):
        assert all(fact in error for fact in needed), error
    assert tensorflow == "False"


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("wmt14_translate/de-en", {"de", "en"}),
        ("ted_hrlr_translate/pt_to_en", {"pt", "en"}),
    ],
)
def test_tfds_knows_the_translation_datasets(
    tmp_path: Path, name: str, languages: set[str]
) -> None:
    import tensorflow_datasets as tfds
    import tensorflow_datasets.translate

    builder = tfds.builder(name, data_dir=tmp_path, file_format="array_record")
    assert set(builder.info.features) == languages


# Tests of real corpora, which are skipped if the corpora are not available


def real(name: str, folder: str) -> Config:
    """Return the settings of a corpus of configs/datasets.py; skip the test if it has no files."""
    if not (SHARED / folder).is_dir():
        pytest.skip(f"{SHARED / folder} does not exist")
    data = get_config(f"data={name}").copy_and_resolve_references().unlock().data
    data.dir = str(SHARED / folder)
    return data


def test_multi30k_is_read() -> None:
    data = real("multi30k_de_en", "multi30k")
    pairs = list(itertools.islice(TranslationCorpus(data).read("train"), 200))
    assert len(pairs) == 200 and all(pair.source and pair.target for pair in pairs)
    assert pairs[0] == Pair(
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
        "Two young, White males are outside near many bushes.",
    )
    sizes = [sum(1 for _ in TranslationCorpus(data).read(split)) for split in ("valid", "test")]
    assert sizes == [1014, 1000]


def test_cmudict_is_read() -> None:
    data = real("cmudict", "cmudict")
    pairs = list(itertools.islice(TranslationCorpus(data).read("train"), 200))
    assert len(pairs) == 200
    assert all(re.fullmatch(r"[A-Z]{1,2}( [A-Z]{1,2})*", pair.target) for pair in pairs)
    held_out = list(itertools.islice(TranslationCorpus(data).read("valid"), 10))
    assert not {pair.source for pair in held_out} & {pair.source for pair in pairs}


# Tests of gold word alignments


def test_alignment_files_have_one_sentence_or_one_link_per_line(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path / f"{split}.en", "a b", "c d")
        write(tmp_path / f"{split}.de", "A B", "C D")
    write(tmp_path / "test.align.gz", "0-0 1?1", "")
    data = config(tmp_path, alignment="{split}.align")
    assert [pair.alignment for pair in TranslationCorpus(data).read("test")] == ["0-0 1?1", ""]
    assert [pair.alignment for pair in TranslationCorpus(data).read("train")] == ["", ""]
    write(tmp_path / "test.key", "1 1 1", "2 1 2 S", "2 2 1 P")
    data = config(tmp_path, alignment="{split}.key", alignment_base=1)
    assert [pair.alignment for pair in TranslationCorpus(data).read("test")] == ["0-0", "0-1 1?0"]
    data.alignment_order = "target-source"
    assert [pair.alignment for pair in TranslationCorpus(data).read("test")] == ["0-0", "1-0 0?1"]


@pytest.mark.parametrize(
    ("line", "base"), [("0-0 x-1", 0), ("0-1", 1), ("1 2", 0), ("a 1 1", 0), ("1 0 1", 1)]
)
def test_error_for_invalid_word_links_names_the_line(tmp_path: Path, line: str, base: int) -> None:
    write(tmp_path / "test.en", "a b")
    write(tmp_path / "test.de", "A B")
    write(tmp_path / "test.align", line)
    data = config(tmp_path, alignment="{split}.align", alignment_base=base)
    found = message(data, "test")
    assert f"{tmp_path}/test.align, line 1: " in found
    assert repr(line) in found and f"data.alignment_base={base}" in found


def test_error_for_gold_links_outside_their_sentences(tmp_path: Path) -> None:
    write(tmp_path / "test.en", "a b c", "c d@@ e")
    write(tmp_path / "test.de", "A B", "C D")
    data = config(tmp_path, alignment="{split}.align")
    data.source_vocab.tokenizer = "bpe"
    for line, size in (("0-0 1-2", "2 source words and 2"), ("2-1", "2 source words and 2")):
        write(tmp_path / "test.align", "2-1", line)  # d@@ e is one word
        found = message(data, "test")
        assert f"{tmp_path}/test.align, line 2: the link {line[-3:]} " in found
        assert size in found and "data.alignment_order" in found
    write(tmp_path / "test.align", "2 1 1", "1 3 2", "3 1 1")
    data.alignment_base = 1
    assert "align, line 3: the link is in a sentence beyond the 2" in message(data, "test")
    write(tmp_path / "test.align", "1-1")
    assert "align has 1 lines, but the split has 2 sentence pairs" in message(data, "test")


def test_error_for_a_folder_without_vocabularies(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/source.vocab does not exist"):
        TranslationCorpus(config(tmp_path)).open(tmp_path)


@pytest.mark.parametrize(
    ("name", "folder", "links"),
    [
        ("europarl_es_en", "es_en_europarl", 5921),
        ("europarl_en_es", "es_en_europarl", 5921),
        ("bible_grc_eng", "grc_en_bible", 189_473),
        ("bible_eng_grc", "grc_en_bible", 189_473),
    ],
)
def test_all_links_of_real_alignments_are_read(name: str, folder: str, links: int) -> None:
    path = SHARED / "alignment" / folder
    if not path.is_dir():
        pytest.skip(f"{path} does not exist")
    data = config(path, **{**DATASETS["translation"][name], "dir": str(path)})
    pairs = list(TranslationCorpus(data).read("test"))
    assert sum(len(pair.alignment.split()) for pair in pairs) == links
    for pair in pairs:
        for link in pair.alignment.split():
            source, target = map(int, link.split("-"))
            assert source < len(pair.source.split()) and target < len(pair.target.split())
