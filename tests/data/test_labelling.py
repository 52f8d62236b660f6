"""Sequences with labels: what is read, what is prepared, what is refused."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from configs.base import Config, base_config
from configs.datasets import DATASETS
from data.labelling import prepare, read_sequences, series
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
    own = prepare(data).split(split)
    return list(own.examples(np.arange(len(own))))


@pytest.mark.parametrize("length", [1, 3, 50])
def test_the_series_is_the_papers(length):
    """y(t) by its two sums, term by term."""
    x = np.random.default_rng(0).uniform(size=length)
    for t, y in enumerate(series(x)):
        past = sum(x[t + d] * (1 - abs(d) / 10) for d in range(-10, 0) if t + d >= 0) / 10
        ahead = sum(x[t + d] * (1 - d / 20) for d in range(20) if t + d < length) / 20
        assert y == pytest.approx(past + ahead)


def test_series_of_splits_and_seeds_differ(tmp_path):
    data = make(tmp_path, "series")
    train, valid = examples(data, "train"), examples(data, "valid")
    assert len(train) == 100 and train[0]["x"].shape == train[0]["label"].shape == (100, 1)
    np.testing.assert_allclose(train[0]["label"][:, 0], series(train[0]["x"][:, 0]), atol=1e-6)
    assert not np.array_equal(train[0]["x"], valid[0]["x"])
    data.seed = 1
    assert not np.array_equal(train[0]["x"], examples(data, "train")[0]["x"])


def test_classes_of_the_series(tmp_path):
    data = make(tmp_path, "series_classes")
    numbers = examples(make(tmp_path, "series"), "test")
    names = prepare(data).vocabularies["label"].names
    assert names == ["over", "under"]
    for own, values in zip(examples(data, "test"), numbers, strict=True):
        over = [names[i] == "over" for i in own["label"]]
        assert over == (values["label"][:, 0] > 0.5).tolist()


def test_columns_become_ids(tmp_path):
    data = columns(tmp_path, inputs=("word", "pos", "suffix", "characters"))
    prepared = prepare(data)
    words, labels = prepared.vocabularies["word"], prepared.vocabularies["label"]
    first, second = examples(data, "train")
    assert words.decode(first["word"]) == "Confidence in the pound"
    assert [labels.names[i] for i in first["label"]] == ["B-NP", "B-PP", "B-NP", "I-NP"]
    assert prepared.vocabularies["suffix"].decode(second["suffix"]) == "tes ell"
    letters = prepared.vocabularies["characters"]
    assert [letters.decode(row) for row in second["characters"]] == ["Rates", "fell"]
    assert second["characters"].shape == (2, 5) and second["length"] == 2
    assert prepared.split("test").texts()[1]["word"] == ["Rates", "fell"]


def test_a_chunk_that_can_begin_can_go_on(tmp_path):
    """CoNLL-2000 has I-LST in its test text alone."""
    data = columns(tmp_path, test="a NN B-VP\nb NN I-VP\n")
    names = prepare(data).vocabularies["label"].names
    assert names == ["B-NP", "B-PP", "B-VP", "I-NP", "I-PP", "I-VP"]
    assert [names[i] for i in examples(data, "test")[0]["label"]] == ["B-VP", "I-VP"]


def test_a_label_that_training_lacks_is_named_with_its_line(tmp_path):
    data = columns(tmp_path, test="in IN B-PP\n\nthe DT B-NP\npound NN B-XY\n")
    with pytest.raises(UserError, match=r"test\.txt, line 4: the label 'B-XY' does not occur"):
        prepare(data)
    assert not list(Path(data.cache).glob("*[0-9a-f]"))  # nothing half made is left


def test_a_line_with_a_column_too_few(tmp_path):
    data = columns(tmp_path, test="in IN B-PP\nthe B-NP\n")
    with pytest.raises(UserError, match=r"test\.txt, line 2: 3 columns are wanted .* not 2"):
        prepare(data)


def test_long_sequences_are_cut_to_train_on_and_nowhere_else(tmp_path):
    data = columns(tmp_path, max_length=3)
    assert [len(s.columns["word"]) for s in read_sequences(data, "train")] == [3, 1, 2]
    assert [len(s.columns["word"]) for s in read_sequences(data, "test")] == [4, 2]


def rolls(folder: Path, frames: np.ndarray) -> Config:
    cell = np.empty((1, 2), object)
    cell[0, 0], cell[0, 1] = frames, frames[:2]
    content = dict.fromkeys(("traindata", "validdata", "testdata"), cell)
    scipy.io.savemat(folder / "own.mat", content)
    splits = {"train": "traindata", "valid": "validdata", "test": "testdata"}
    return make(folder, "polymusic", files="own.mat", splits=splits)


def test_pieces_of_music_share_the_frame_of_the_cut(tmp_path):
    frames = np.random.default_rng(0).integers(0, 2, (9, 88)).astype(np.uint8)
    data = rolls(tmp_path, frames)
    data.max_length = 4  # steps, each from a frame to the next
    pieces = [s.columns["label"] for s in read_sequences(data, "train")]
    assert [len(piece) for piece in pieces] == [5, 5, 2]
    np.testing.assert_array_equal(np.concatenate([pieces[0], pieces[1][1:]]), frames)


def test_piano_rolls(tmp_path):
    frames = np.random.default_rng(0).integers(0, 2, (5, 88)).astype(np.uint8)
    first, second = examples(rolls(tmp_path, frames), "test")
    np.testing.assert_array_equal(first["label"], frames)
    assert first["label"].dtype == np.uint8 and second["length"] == 2


def test_piano_rolls_of_another_shape_are_refused(tmp_path):
    with pytest.raises(UserError, match="frames of 88 notes are wanted, not 5 × 87"):
        prepare(rolls(tmp_path, np.zeros((5, 87), np.uint8)))
    data = rolls(tmp_path, np.zeros((5, 88), np.uint8))
    data.splits.test = "nodata"
    with pytest.raises(UserError, match=r"no variable 'nodata': data\.splits can name traind"):
        prepare(data)
    with pytest.raises(UserError, match="traindata 0: notes are wanted as 0 and 1"):
        prepare(rolls(tmp_path, np.full((5, 88), 2, np.uint8)))
    (tmp_path / "own.mat").write_bytes(b"no such thing")
    with pytest.raises(UserError, match=r"own\.mat is no MATLAB file"):
        prepare(data)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the corpora are not in {SHARED}")
@pytest.mark.parametrize(
    ("name", "folder", "count"), [("conll2000", "conll2000", 2012), ("jsb", "polymusic", 77)]
)
def test_real_corpora_are_read(name, folder, count):
    data = base_config("tagger").data
    data.update({**DATASETS["labelling"][name], "dir": str(SHARED / folder)})
    assert sum(1 for _ in read_sequences(data, "test")) == count
    assert len(list(itertools.islice(read_sequences(data, "train"), 50))) == 50
