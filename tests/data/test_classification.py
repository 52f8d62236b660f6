"""Text classification corpora: formats, preparation and error messages."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from configs.base import Config, base_config
from configs.datasets import DATASETS
from data.classification import ClassificationCorpus, Text, sentences
from data.files import corpus_folder_flag
from errors import UserError

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
TRAIN = ["1\tGood film. I liked it!", "0\tBad film.<br /><br />Don't go"]


def make(folder: Path, test: list[str] = TRAIN, suffix: str = "tsv", **changes) -> Config:
    for split, lines in (("train", TRAIN), ("valid", TRAIN), ("test", test)):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{split}.{suffix}").write_text(
            text if suffix == "tsv" else text.replace("\t", " ")
        )
    data: Config = base_config("sentence").data
    data.update({"dir": str(folder), "cache": str(folder / "cache"), **changes})
    return data


def examples(data: Config, split: str = "test") -> list[dict[str, np.ndarray]]:
    prepared = ClassificationCorpus(data).prepare().split(split)
    return list(prepared.examples(np.arange(len(prepared))))


def read(data: Config, split: str = "test") -> list[Text]:
    return list(ClassificationCorpus(data).read(split))


def test_texts_are_split_into_sentences():
    text = 'He said "No!" Then (well.) he left... <br/>It is 3.5 m.\nEnd'
    assert sentences(text) == ['He said "No!"', "Then (well.)", "he left...", "It is 3.5 m.", "End"]
    assert sentences(" <br /> \n") == []


def test_texts_become_ids(tmp_path):
    data = make(tmp_path)
    words = ClassificationCorpus(data).prepare().vocabularies["words"]
    first, second = examples(data)
    assert words.decode(first["words"]) == "good film . i liked it !"
    assert words.decode(second["words"]) == "bad film . don't go"
    assert [int(example["label"]) for example in (first, second)] == [1, 0]
    assert ClassificationCorpus(data).prepare().split("test").texts()[1] == {
        "words": ["bad", "film", ".", "don't", "go"], "label": "0",
    }  # fmt: skip


def test_documents_are_arrays_of_sentences_and_words(tmp_path):
    data = make(tmp_path, documents=True)
    words = ClassificationCorpus(data).prepare().vocabularies["words"]
    first, second = examples(data)
    assert [words.decode(row) for row in first["words"]] == ["good film .", "i liked it !"]
    assert second["words"].shape == (2, 3) and second["words"][1, 2] == 0


def test_long_texts_are_truncated_and_counted(tmp_path):
    assert examples(make(tmp_path, max_length=3))[0]["words"].shape == (3,)
    data = make(tmp_path, documents=True, max_length=2, max_sentences=1)
    assert examples(data)[0]["words"].shape == (1, 2)
    manifest = json.loads(
        (ClassificationCorpus(data).prepare().folder / "manifest.json").read_text()
    )
    assert manifest["counts"]["test"] == {"read": 2, "kept": 2, "cut": 2}


def test_lines_have_a_label_and_a_text(tmp_path):
    data = make(tmp_path, suffix="txt", corpus="lines", files="{split}.txt")
    assert [text.label for text in read(data)] == ["1", "0"]
    assert read(data)[0].text == "Good film. I liked it!"


def test_columns_are_chosen_by_number(tmp_path):
    lines = ["7\tx\tsome words", "8\ty\tother words"]
    data = make(tmp_path, label="0", text="2")
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text("".join(f"{line}\n" for line in lines))
    assert [text[:2] for text in read(data)] == [("7", "some words"), ("8", "other words")]
    data.text = "3"
    with pytest.raises(UserError, match=r"train\.tsv, line 1: .*tabs, is 3,.*label=0 .*text=3"):
        ClassificationCorpus(data).prepare()


@pytest.mark.parametrize("documents", [True, False])
@pytest.mark.parametrize("text", ["", " <br /> "])
def test_error_for_a_text_without_words_names_the_line(tmp_path, documents, text):
    data = make(tmp_path, [TRAIN[0], f"1\t{text}"], documents=documents)
    with pytest.raises(UserError, match=r"test\.tsv, line 2: .*no words"):
        ClassificationCorpus(data).prepare()


@pytest.mark.parametrize(("line", "fact"), [("", "empty"), ("\tFine.", "no label")])
def test_error_for_a_missing_label_names_the_line(tmp_path, line, fact):
    with pytest.raises(UserError, match=rf"test\.tsv, line 2: .*{fact}"):
        ClassificationCorpus(make(tmp_path, [TRAIN[0], line])).prepare()


def test_error_for_an_empty_data_dir(tmp_path):
    data = make(tmp_path)
    data.dir = ""
    with pytest.raises(UserError, match=r"data\.dir is empty.*--config\.data\.dir="):
        ClassificationCorpus(data).prepare()


@pytest.mark.parametrize("folder", ["", "none"])
def test_error_for_a_missing_folder_names_only_the_flag_of_the_program(tmp_path, folder):
    data = make(tmp_path)
    data.dir = folder and str(tmp_path / folder)
    told = pytest.raises(UserError, match=" with --data_dir=FOLDER;")
    with told as caught, corpus_folder_flag("--data_dir"):
        ClassificationCorpus(data).prepare()
    assert "--config" not in str(caught.value)


def test_error_for_a_holdout_without_examples(tmp_path):
    data = make(tmp_path, splits={"train": "train", "valid": "", "test": "test"}, holdout=10_000)
    with pytest.raises(UserError, match=r"'valid' .*0 of 0 texts kept.*data\.holdout=10000"):
        ClassificationCorpus(data).prepare()


def test_error_for_a_label_unseen_in_training_names_the_line(tmp_path):
    data = make(tmp_path, [TRAIN[0], "5\tFine."])
    with pytest.raises(UserError, match=r"test\.tsv, line 2: .*'5'.* \(0, 1\)"):
        ClassificationCorpus(data).prepare()


def test_texts_can_be_split_into_subwords(tmp_path):
    data = make(tmp_path)
    data.vocab.update({"kind": "bpe", "size": 40})
    words = ClassificationCorpus(data).prepare().vocabularies["words"]
    assert words.decode(examples(data)[0]["words"]) == "good film. i liked it!"


TINY = """
import sys

import numpy as np
import tensorflow_datasets as tfds

from configs.base import base_config
from data.classification import ClassificationCorpus
from errors import UserError


class TinyReviews(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {"text": tfds.features.Text(), "label": tfds.features.ClassLabel(num_classes=2)}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(30), "test": self._generate_examples(4)}

    def _generate_examples(self, count):
        for i in range(count):
            yield i, {"text": f"Größe {i}. Gut!", "label": i % 2}


data = base_config("han").data
data.update({
    "corpus": "tfds", "name": "tiny_reviews", "dir": sys.argv[1], "cache": sys.argv[1] + "/cache",
    "label": "label", "text": "text", "documents": True, "holdout": 5,
    "splits": {"train": "train", "valid": "", "test": "test"},
})
prepared = ClassificationCorpus(data).prepare()
words, labels = prepared.vocabularies["words"], prepared.vocabularies["label"]
for example in prepared.split("test").examples(np.arange(4)):
    text = " | ".join(words.decode(row) for row in example["words"])
    print("READ", text, labels.names[example["label"]])
print("READ", sorted(len(prepared.split(name)) for name in ("train", "valid", "test")))
TinyReviews.VERSION = tfds.core.Version("1.1.0")
print("READ", ClassificationCorpus(data).prepare().folder == prepared.folder)
data.label = "stars"
try:
    ClassificationCorpus(data).prepare()
except UserError as error:
    print("READ", error)
"""


def test_tfds_is_read_without_tensorflow(tmp_path):
    (tmp_path / "tiny.py").write_text(TINY)
    result = subprocess.run(
        [sys.executable, tmp_path / "tiny.py", tmp_path / "tfds"],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE, encoding="utf-8", check=True,
    )  # fmt: skip
    lines = [line[5:] for line in result.stdout.splitlines() if line.startswith("READ ")]
    assert len(lines) == 7 and all(line.endswith(("| gut ! 0", "| gut ! 1")) for line in lines[:4])
    assert sum(json.loads(lines[4])) == 34
    assert lines[5] == "False"  # another version of a dataset is another corpus
    facts = ("tiny_reviews", "'stars'", "data.label", "label, text")
    assert all(fact in lines[6] for fact in facts)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the corpora are not in {SHARED}")
@pytest.mark.parametrize(
    ("name", "folder", "count", "labels"),
    [("sst2", "sst", 1821, 2), ("sst5", "sst", 2210, 5), ("imdb_rating", "imdb", 25_000, 8)],
)
def test_real_corpora_are_read(name, folder, count, labels):
    data = base_config("sentence").data
    data.update({**DATASETS["classification"][name], "dir": str(SHARED / folder)})
    found = [text.label for text in read(data)]
    assert len(found) == count and len(set(found)) == labels
