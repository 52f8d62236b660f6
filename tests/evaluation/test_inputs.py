"""Predictions for new inputs: formats, batches of few shapes, and error messages."""

import io
import json

import jax
import numpy as np
import pytest
import scipy.io

from configs.registry import TASKS, resolve
from errors import UserError
from evaluation.drawing import draw_input
from evaluation.formats import input_record, input_text
from evaluation.inputs import InputPredictor
from evaluation.predictions import Predictor, evenly
from tasks.registry import make_task
from tests.small import random_weights, small_config
from training.devices import make_mesh


def test_examples_are_evenly_spaced():
    assert evenly(10, 5) == [0, 2, 4, 6, 8]
    assert evenly(5, 3) == [0, 1, 3]  # not the first three
    assert evenly(2, 5) == [0, 1] and evenly(3, 0) == evenly(0, 3) == []


_SLOW = ("series", "music", "sentence", "reader")  # these tasks share their code with the others


def stream(name, folder, task):
    """Return the test split as a user would give it to predict.py, with labels and answers."""
    if name == "music":
        cells = scipy.io.loadmat(folder / "all.mat")["testdata"]
        file = io.BytesIO()
        scipy.io.savemat(file, {"songs": cells})
        return file.getvalue()
    if name == "series":
        split = task.prepared.split("test")
        series = [example["x"][:, 0] for example in split.examples(np.arange(len(split)))]
        return "\n".join("".join(f"{x}\n" for x in values) for values in series).encode()
    if name in ("sentence", "han"):
        lines = (folder / "test.tsv").read_text().splitlines()
        return "".join(f"{line.partition('	')[2]}\n" for line in lines).encode()
    return (folder / "test.txt").read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW))
        for name in ("columns", "han", "reader", "series", "music", "sentence")
    ],
)
def test_new_inputs_are_predicted_as_the_examples_of_a_split(name, tmp_path):
    mesh = make_mesh(jax.devices()[:2])
    config = small_config(name, tmp_path)
    config.data.batch_multiple = 2
    task = make_task(config)
    params = random_weights(task)
    _, expected = Predictor(task, mesh)(params, "test", attended=99)
    predictor = InputPredictor(task, params, mesh)
    inputs = list(predictor.corpus.read_inputs(io.BytesIO(stream(name, tmp_path, task))))
    found = predictor(inputs, attention=True)
    assert len(found) == len(expected) and len(predictor._shapes) <= 2
    for ours, theirs in zip(found, expected, strict=True):
        _check(task, ours, theirs)
    assert draw_input(found[0]) is None if name == "columns" else draw_input(found[0]).png()
    shown = [json.loads(input_record(i, result, True)) for i, result in enumerate(found)]
    assert [record["input"] for record in shown] == list(range(len(found)))
    alone = predictor(inputs[:1], attention=True)[0]
    assert input_text(0, alone, tsv=True) == input_text(0, found[0], tsv=True)


def _check(task, ours, theirs):
    if task.config.task == "cloze":
        assert ours.label == ours.text["candidates"][theirs["answer"] - 1]
    elif task.config.task == "classification":
        assert ours.label == task.labels.names[theirs["label"]]
        assert sum(ours.probabilities.values()) == pytest.approx(1, abs=1e-5)
    elif isinstance(ours.label, np.ndarray):
        # The label of the last frame, which follows the piece, is not in the corpus.
        steps = len(ours.label) - (task.kind == "notes")
        np.testing.assert_allclose(ours.label[:steps], theirs["label"][:steps], atol=1e-5)
        return
    else:
        names = task.prepared.vocabularies["label"].names
        assert ours.label == [names[i] for i in theirs["label"][: len(ours.label)]]
        return
    assert ours.p == pytest.approx(float(theirs["p"]), abs=1e-5)
    for name, weights in ours.attention.items():
        crop = theirs[name][tuple(map(slice, weights.shape))]
        np.testing.assert_allclose(weights, crop, atol=1e-5)
        np.testing.assert_allclose(weights.sum(), theirs[name].sum(), rtol=1e-4)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Return the corpora of all tasks, by name; they are not prepared."""

    def make(name, **changes):
        config = small_config(name, tmp_path_factory.mktemp(name))
        config.data.update(changes)
        return resolve(TASKS[config.task].task).corpus(config.data)

    return {
        "words": make("columns", columns=("word", "label")),
        "tags": make("columns", inputs=("word", "pos"), columns=("word", "lemma", "pos", "label")),
        "texts": make("sentence"), "music": make("music"), "series": make("series"),
        "cloze": make("reader"),
    }  # fmt: skip


QUESTION = {"passage": "Anna saw Bert", "query": "XXXXX ran", "candidates": ["Anna", "Bert"]}


@pytest.mark.parametrize(
    ("name", "value", "fact"),
    [
        ("texts", 3, "string"),
        ("words", "a sentence", "list of words"),
        ("words", ["New York"], "New York"),
        ("words", {"lemma": ["a"]}, "word is None"),
        ("tags", ["a", "b"], "pos is None"),
        ("tags", {"word": ["a", "b"], "pos": ["X"]}, "pos is"),
        ("series", ["a"], "finite numbers"),
        ("series", [np.nan], "finite numbers"),
        ("music", np.zeros((3, 87)), "3 × 87"),
        ("music", np.full((3, 88), 2), "0 (silent) or 1"),
        ("cloze", "a question", "dictionary"),
        ("cloze", QUESTION | {"query": "who ran"}, "XXXXX"),
        ("cloze", QUESTION | {"candidates": ["Carl"]}, "none of the candidates"),
        ("cloze", QUESTION | {"candidates": ["Anna"] * 11}, "max_candidates"),
    ],
)
def test_a_wrong_value_is_a_user_error(name, value, fact, corpora):
    with pytest.raises(UserError) as error:
        corpora[name].make_input(value, "input 7")
    assert str(error.value).startswith("input 7: ") and fact in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("words", b"a X\n\nb\nc X y\n", "line 4: expected 1 column (word) or 2 columns (word, l"),
        ("tags", b"a\n", "line 1: expected 2 columns (word, pos) or 3 columns (word, lemma, pos) "),
        ("words", b"a\n\xff\n", "line 2 is not UTF-8"),
        ("series", b"1\n\none\n", "line 3: 'one' is not a finite number"),
        ("music", b"1 0 1\n", "standard input is not a MATLAB file"),
        ("cloze", b"1 Anna saw Bert .\nXXXXX ran .\n", "line 2: every line"),
        ("cloze", b"1 Anna saw Bert .\n2 XXXXX ran .\tAnna|Bert\n", "line 2: the last line"),
    ],
)
def test_a_wrong_stream_is_a_user_error(name, text, fact, corpora):
    with pytest.raises(UserError) as error:
        list(corpora[name].read_inputs(io.BytesIO(text)))
    assert fact in str(error.value)


def test_columns_may_have_all_columns_or_those_that_the_model_reads(corpora, caplog):
    caplog.set_level("INFO", "alignax")
    text = b"a lem X O\nb lem Y O\n\na X\n\na lem X\n"
    values = [value for value, _ in corpora["tags"].read_inputs(io.BytesIO(text))]
    assert [list(value) for value in values] == [
        ["word", "lemma", "pos", "label"], ["word", "pos"], ["word", "lemma", "pos"],
    ]  # fmt: skip
    assert caplog.messages == [
        "standard input, line 1: read as word, lemma, pos, label; ignored: lemma, label"
    ]
    sequence = corpora["tags"].make_input(values[0], "line 1")
    assert sequence.columns == {"word": ["a", "b"], "pos": ["X", "Y"], "label": [0, 0]}


def test_a_matlab_file_with_several_variables_needs_that_of_the_test_split(corpora):
    def inputs(**variables):
        file = io.BytesIO()
        scipy.io.savemat(file, variables)
        return list(corpora["music"].read_inputs([file.getvalue()]))

    roll = np.zeros((3, 88), np.uint8)
    assert len(inputs(song=roll)) == 1
    assert inputs(other=roll, testdata=roll)[0][1] == "standard input, testdata 0"
    with pytest.raises(UserError, match=r"a, b, but not 'testdata'"):
        inputs(a=roll, b=roll)


def test_typed_inputs(corpora):
    assert corpora["words"].typed_lines(["a b"]) == ["a", "b"]
    assert "one sentence per line" in corpora["words"].typed
    assert corpora["tags"].ends_at_blank_line and "(word pos)" in corpora["tags"].typed
    assert corpora["tags"].typed_lines(["a X", "b Y"]) == ["a X", "b Y"]
