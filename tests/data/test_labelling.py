"""Sequence labelling corpora: formats, preparation and error messages."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from configs.base import Config, base_config
from configs.datasets import DATASETS
from data.labelling import LabellingCorpus, series
from errors import UserError

SHARED = Path(__file__).parents[3] / "shared" / "data"
TRAIN = """Confidence NN B-NP
in IN B-PP
the DT B-NP
pound NN I-NP

Rates NNS B-NP
fell VBD B-VP
"""


def make(folder: Path, corpus: str, **changes) -> Config:
    data: Config = base_config("tagger").data
    data.update({"corpus": corpus, "dir": str(folder), "cache": str(folder / "cache"), **changes})
    return data


def columns(folder: Path, test: str = TRAIN, **changes) -> Config:
    for split, text in (("train", TRAIN), ("valid", TRAIN), ("test", test)):
        (folder / f"{split}.txt").write_text(text)
    return make(folder, "columns", **changes)


def examples(data: Config, split: str) -> list[dict[str, np.ndarray]]:
    prepared = LabellingCorpus(data).prepare().split(split)
    return list(prepared.examples(np.arange(len(prepared))))


@pytest.mark.parametrize("length", [1, 3, 50])
def test_the_series_equals_the_formula_of_the_paper(length):
    """Compare the target y(t) with sums over past and future inputs, computed term by term."""
    x = np.random.default_rng(0).uniform(size=length)
    for t, y in enumerate(series(x)):
        past = sum(x[t + d] * (1 - abs(d) / 10) for d in range(-10, 0) if t + d >= 0) / 10
        ahead = sum(x[t + d] * (1 - d / 20) for d in range(20) if t + d < length) / 20
        assert y == pytest.approx(past + ahead)


def test_series_depend_on_split_and_seed(tmp_path):
    data = make(tmp_path, "series")
    train, valid = examples(data, "train"), examples(data, "valid")
    assert len(train) == 100 and train[0]["x"].shape == train[0]["label"].shape == (100, 1)
    np.testing.assert_allclose(train[0]["label"][:, 0], series(train[0]["x"][:, 0]), atol=1e-6)
    assert not np.array_equal(train[0]["x"], valid[0]["x"])
    data.seed = 1
    assert not np.array_equal(train[0]["x"], examples(data, "train")[0]["x"])


def test_series_classes_are_thresholded_values(tmp_path):
    data = make(tmp_path, "series_classes")
    numbers = examples(make(tmp_path, "series"), "test")
    names = LabellingCorpus(data).prepare().vocabularies["label"].names
    assert names == ["over", "under"]
    for example, values in zip(examples(data, "test"), numbers, strict=True):
        over = [names[i] == "over" for i in example["label"]]
        assert over == (values["label"][:, 0] > 0.5).tolist()


def test_columns_become_ids(tmp_path):
    data = columns(tmp_path, inputs=("word", "pos", "suffix", "characters"))
    prepared = LabellingCorpus(data).prepare()
    words, labels = prepared.vocabularies["word"], prepared.vocabularies["label"]
    first, second = examples(data, "train")
    assert words.decode(first["word"]) == "Confidence in the pound"
    assert [labels.names[i] for i in first["label"]] == ["B-NP", "B-PP", "B-NP", "I-NP"]
    assert prepared.vocabularies["suffix"].decode(second["suffix"]) == "tes ell"
    letters = prepared.vocabularies["characters"]
    assert [letters.decode(row) for row in second["characters"]] == ["Rates", "fell"]
    assert second["characters"].shape == (2, 5) and second["length"] == 2
    assert prepared.split("test").texts()[1]["word"] == ["Rates", "fell"]
    assert [text["word"] for text in prepared.split("test").texts([1])] == [["Rates", "fell"]]


def test_every_chunk_type_has_both_prefixes(tmp_path):
    """In CoNLL-2000, the label I-LST occurs only in the test split."""
    data = columns(tmp_path, test="a NN B-VP\nb NN I-VP\n")
    names = LabellingCorpus(data).prepare().vocabularies["label"].names
    assert names == ["B-NP", "B-PP", "B-VP", "I-NP", "I-PP", "I-VP"]
    assert [names[i] for i in examples(data, "test")[0]["label"]] == ["B-VP", "I-VP"]


def test_error_for_a_label_unseen_in_training_names_the_line(tmp_path):
    data = columns(tmp_path, test="in IN B-PP\n\nthe DT B-NP\npound NN B-XY\n")
    with pytest.raises(UserError, match=r"test\.txt, line 4: .*'B-XY'.*B-NP, B-PP, B-VP"):
        LabellingCorpus(data).prepare()
    assert not list(Path(data.cache).glob("*[0-9a-f]"))  # the failed corpus is not cached


def test_error_for_too_few_columns_names_the_line(tmp_path):
    data = columns(tmp_path, test="in IN B-PP\nthe B-NP\n")
    with pytest.raises(
        UserError, match=r"test\.txt, line 2: .*3 .*word, pos, label.* 2: .*columns"
    ):
        LabellingCorpus(data).prepare()


def test_long_sequences_are_cut_in_training_only(tmp_path):
    corpus = LabellingCorpus(columns(tmp_path, max_length=3))
    assert [len(s.columns["word"]) for s in corpus.read("train")] == [3, 1, 2]
    assert [len(s.columns["word"]) for s in corpus.read("test")] == [4, 2]


def test_sequences_and_time_steps_are_counted(tmp_path):
    manifest = json.loads(
        (LabellingCorpus(columns(tmp_path)).prepare().folder / "manifest.json").read_text()
    )
    assert manifest["counts"]["test"] == {"read": 2, "kept": 2, "steps": 6}


def rolls(folder: Path, frames: np.ndarray) -> Config:
    """Write a MATLAB file with the same two piano rolls in every split."""
    cell = np.empty((1, 2), object)
    cell[0, 0], cell[0, 1] = frames, frames[:2]
    content = dict.fromkeys(("traindata", "validdata", "testdata"), cell)
    scipy.io.savemat(folder / "rolls.mat", content)
    splits = {"train": "traindata", "valid": "validdata", "test": "testdata"}
    return make(folder, "polymusic", files="rolls.mat", splits=splits)


def test_consecutive_pieces_of_music_share_a_frame(tmp_path):
    frames = np.random.default_rng(0).integers(0, 2, (9, 88)).astype(np.uint8)
    data = rolls(tmp_path, frames)
    data.max_length = 4  # 4 time steps need 5 frames: each label is the next frame
    pieces = [s.columns["label"] for s in LabellingCorpus(data).read("train")]
    assert [len(piece) for piece in pieces] == [5, 5, 2]
    np.testing.assert_array_equal(np.concatenate([pieces[0], pieces[1][1:]]), frames)


def test_piano_rolls_are_read(tmp_path):
    frames = np.random.default_rng(0).integers(0, 2, (5, 88)).astype(np.uint8)
    first, second = examples(rolls(tmp_path, frames), "test")
    np.testing.assert_array_equal(first["label"], frames)
    assert first["label"].dtype == np.uint8 and second["length"] == 2


def test_error_for_invalid_piano_rolls(tmp_path):
    with pytest.raises(UserError, match=r"rolls\.mat, traindata 0: .*88 notes.*5 × 87"):
        LabellingCorpus(rolls(tmp_path, np.zeros((5, 87), np.uint8))).prepare()
    data = rolls(tmp_path, np.zeros((5, 88), np.uint8))
    data.splits.test = "nodata"
    with pytest.raises(
        UserError, match=r"'nodata': .*data\.splits .*traindata, validdata, testdata"
    ):
        LabellingCorpus(data).prepare()
    with pytest.raises(UserError, match=r"rolls\.mat, traindata 0: .*0 \(silent\) or 1"):
        LabellingCorpus(rolls(tmp_path, np.full((5, 88), 2, np.uint8))).prepare()
    (tmp_path / "rolls.mat").write_bytes(b"not a MATLAB file")
    with pytest.raises(UserError, match=r"rolls\.mat is not a MATLAB file"):
        LabellingCorpus(data).prepare()


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the corpora are not in {SHARED}")
@pytest.mark.parametrize(
    ("name", "folder", "count"), [("conll2000", "conll2000", 2012), ("jsb", "polymusic", 77)]
)
def test_real_corpora_are_read(name, folder, count):
    data = base_config("tagger").data
    data.update({**DATASETS["labelling"][name], "dir": str(SHARED / folder)})
    corpus = LabellingCorpus(data)
    assert sum(1 for _ in corpus.read("test")) == count
    assert len(list(itertools.islice(corpus.read("train"), 50))) == 50
