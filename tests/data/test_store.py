"""The files of a prepared corpus: writing and reading examples, and errors for corrupt files."""

import os
from pathlib import Path

import numpy as np
import pytest

from data.store import ArrayField, Prepared, Writer, pad_rows, shapes
from errors import UserError

FIELDS = {
    "words": ArrayField(("sentence", "word")),
    "frames": ArrayField(("step", 3), np.float32),
    "mark": ArrayField(("sentence",), np.uint8),
    "label": ArrayField(),
}
SIZES = [(2, 3, 4), (1, 1, 1), (0, 2, 5), (3, 2, 0)]  # (sentences, words, steps) per example


def make_examples() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        {
            "words": rng.integers(1, 99, (sentences, words)).astype(np.int32),
            "frames": rng.uniform(size=(steps, 3)).astype(np.float32),
            "mark": rng.integers(1, 9, sentences).astype(np.uint8),
            "label": np.int32(number + 1),
        }
        for number, (sentences, words, steps) in enumerate(SIZES)
    ]


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    for split in ("train", "valid"):
        with Writer(tmp_path, split, FIELDS) as writer:
            for number, example in enumerate(make_examples()):
                writer.add(example, {"text": f"Größe {number}"})
    return Prepared(tmp_path, FIELDS, {})


def test_examples_are_read_back(prepared: Prepared) -> None:
    split = prepared.split("train")
    assert split.lengths.tolist() == [[s, w, t] for s, w, t in SIZES]
    order = np.array([3, 0, 2, 1, 0])
    for index, example in zip(order, split.examples(order), strict=True):
        for name, values in make_examples()[index].items():
            np.testing.assert_array_equal(example[name], values, strict=True)


def test_batches_are_padded_with_zeros(prepared: Prepared) -> None:
    order, lengths = np.array([2, 0, 3]), [4, 3, 6]
    batch = prepared.split("train").padded(order, lengths)
    assert {name: array.shape for name, array in batch.items()} == {
        "words": (3, 4, 3), "frames": (3, 6, 3), "mark": (3, 4), "label": (3,),
    }  # fmt: skip
    for row, index in enumerate(order):
        for name, values in make_examples()[index].items():
            padded = np.zeros_like(batch[name][row])
            padded[tuple(slice(size) for size in values.shape)] = values
            np.testing.assert_array_equal(batch[name][row], padded, strict=True)


def test_texts_are_stored_except_for_the_training_split(prepared: Prepared) -> None:
    texts = prepared.split("valid").texts()
    assert texts == [{"text": f"Größe {number}"} for number in range(len(SIZES))]
    assert not (prepared.folder / "train.jsonl").exists()


def test_shapes_follow_the_lengths_of_named_axes() -> None:
    found = shapes(FIELDS, [2, 5, 7])
    assert found == {"words": (2, 5), "frames": (7, 3), "mark": (2,), "label": ()}


def test_rows_of_different_lengths_are_padded() -> None:
    assert pad_rows([[1, 2], [], [3]]).tolist() == [[1, 2], [0, 0], [3, 0]]


@pytest.mark.parametrize(
    ("name", "values", "facts"),
    [
        ("mark", [1, 2, 3], r"'mark' .* 3 .*'sentence'.* 2"),
        ("frames", np.zeros((4, 2)), r"'frames' .* 2 .*3"),
    ],
)
def test_error_for_fields_that_disagree_on_an_axis(
    tmp_path: Path, name: str, values: object, facts: str
) -> None:
    example = make_examples()[0] | {name: values}
    with Writer(tmp_path, "train", FIELDS) as writer, pytest.raises(ValueError, match=facts):
        writer.add(example, {})


def test_error_for_a_split_that_does_not_exist(prepared: Prepared) -> None:
    with pytest.raises(UserError, match="'test': choose another split"):
        prepared.split("test")


@pytest.mark.parametrize("name", ["train.words.bin", "train.label.bin", "train.lengths.npy"])
def test_error_for_a_truncated_file(prepared: Prepared, name: str) -> None:
    path = prepared.folder / name
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match=rf"{path} .*corrupt.* delete .*{prepared.folder}"):
        prepared.split("train")


def test_error_for_a_missing_file(prepared: Prepared) -> None:
    split, path = prepared.split("valid"), prepared.folder / "valid.mark.bin"
    path.unlink()
    with pytest.raises(UserError, match=rf"{path} is missing or corrupt"):
        prepared.split("valid")
    (prepared.folder / "valid.jsonl").unlink()
    with pytest.raises(UserError, match=r"valid\.jsonl is missing or corrupt"):
        split.texts()


def test_error_for_a_file_that_is_truncated_while_it_is_mapped(prepared: Prepared) -> None:
    split, path = prepared.split("train"), prepared.folder / "train.words.bin"
    os.truncate(path, 4)
    with pytest.raises(UserError, match=rf"{path} is missing or corrupt: delete the folder"):
        split.padded(np.array([0]), [4, 4, 4])
    with pytest.raises(UserError, match=rf"{path} is missing or corrupt"):
        next(split.examples(np.array([0])))


def test_pickled_objects_are_not_loaded(prepared: Prepared) -> None:
    lengths = np.array([[1, {}]], dtype=object)
    np.save(prepared.folder / "train.lengths.npy", lengths, allow_pickle=True)
    with pytest.raises(UserError, match=r"train\.lengths\.npy is missing or corrupt"):
        prepared.split("train")
