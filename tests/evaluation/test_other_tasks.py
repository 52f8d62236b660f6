"""Training, scores, predictions, plots and report.html of all tasks except translation."""

import json
import re
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from comparing.runs import read_report_examples
from configs.base import choices
from configs.registry import TASKS, resolve
from errors import UserError
from evaluation.classification import confusion, macro_f1
from evaluation.examples import read_examples
from evaluation.labelling import chunk_scores
from evaluation.metrics import METRICS
from evaluation.predictions import Predictor, mean_losses
from evaluation.results import ReportOptions
from experiment import score_run, train_run
from tasks.registry import make_task
from tests.programs import call
from tests.small import random_weights, small_config
from training.devices import make_mesh
from training.loop import train

SCORES = {
    "series": {"loss"},
    "columns": {"loss", "accuracy", "precision", "recall", "f1"},
    "music": {"loss"},
    "sentence": {"loss", "accuracy", "error", "macro_f1"},
    "han": {"loss", "accuracy", "error", "macro_f1"},
    "reader": {"loss", "accuracy", "most_frequent"},
}
PICTURES = {
    "series": "prediction-0.png", "music": "prediction-0.png", "sentence": "attention-0.png",
    "han": "attention-0.png", "reader": "attention-0.png",
}  # fmt: skip


def content(page: Path) -> dict:
    found = re.search(r'type="application/json">(.*?)</script>', page.read_text("utf-8"), re.S)
    return json.loads(found[1])


@pytest.fixture(scope="module")
def alone():
    return make_mesh(jax.devices()[:1])


# These tasks share their code with the others.
_SLOW = ("series", "music", "han", "columns")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW)) for name in SCORES]
)
def test_a_run_from_corpus_to_page(name, tmp_path, alone):
    config, workdir = small_config(name, tmp_path / "corpus"), tmp_path / "run"
    workdir.mkdir()
    task = make_task(config)
    state = train(
        task,
        resolve(TASKS[config.task].evaluation).make_evaluate(task, alone),
        config,
        workdir,
        alone,
    )
    logged = [json.loads(line) for line in (workdir / "log.jsonl").read_text().splitlines()]
    (valid,) = (line for line in logged if line["kind"] == "valid")
    assert valid["step"] == 2
    metrics = set(choices(config.model.name, "train.eval_metric"))
    if config.task == "labelling":  # its scores depend on the kind of labels
        metrics &= SCORES[name]
    assert metrics <= valid.keys()

    options = ReportOptions("test", workdir, pictures=1, page=3, checkpoints=[2])
    resolve(TASKS[config.task].evaluation).report(task, state.params, alone, options)
    scores = json.loads((workdir / "scores.json").read_text())["scores"]
    assert set(scores) == SCORES[name] and all(map(np.isfinite, scores.values()))
    assert {path.name for path in workdir.glob("*.png")} == {PICTURES.get(name)} - {None}
    written = (workdir / "predictions.txt").read_text().removesuffix("\n").split("\n")
    count = len(task.prepared.split("test"))
    assert (written.count("") if config.task == "labelling" else len(written)) == count
    if "accuracy" in scores:
        examples = read_examples(workdir, "score again")
        right, total = np.sum([x.statistics["accuracy"] for x in examples], axis=0)
        assert len(examples) == count
        assert right / total == pytest.approx(scores["accuracy"], rel=1e-4)
        shown = read_report_examples(workdir / "report.html")[1]  # what compare.py reads
        assert [x.text for x in shown] == [x.text for x in examples[:3]]
    else:
        assert not (workdir / "examples.jsonl").exists()
    page = content(workdir / "report.html")
    # Only these two tasks have pictures on the page, which draws the examples of other tasks.
    pictured = name in ("series", "music")
    assert len(page["pictures"]) == pictured
    assert len(page["examples"]) == (0 if pictured else 3)
    assert {score["name"] for score in page["scores"]} == {METRICS[key].name for key in scores}
    for example in page["examples"]:
        for rows in example["hypotheses"][0]["attention"].values():
            assert {len(row) for row in rows} <= {len(example["source"])}


def test_predictions_come_in_the_corpus_order_from_several_devices(tmp_path, mesh):
    config = small_config("columns", tmp_path)
    config.data.update({"batch_size": 4, "batch_multiple": 2, "buckets": 2})
    task = make_task(config)
    assert len(list(task.eval_batches("test"))) > 2  # several batches reorder the examples
    params = random_weights(task)
    losses, found = Predictor(task, mesh)(params, "test")
    sums, loss, predict = [], jax.jit(task.loss), jax.jit(task.predict)
    assert len(found) == len(task.prepared.split("test"))
    for batch in task.eval_batches("test"):  # compute the expected results on one device
        sums.append(loss(params, batch))
        labels = predict(params, batch)[0]["label"]
        for row, i in enumerate(batch["index"].tolist()):
            if i >= 0:
                np.testing.assert_array_equal(found[i]["label"], labels[row])
    np.testing.assert_allclose(losses["loss"], mean_losses(sums)["loss"], rtol=1e-5)


# Gold labels, predicted labels, and the numbers of gold, predicted and correct chunks.
CHUNKS = {
    "equal": (["B-NP", "I-NP", "O"], ["B-NP", "I-NP", "O"], (1, 1, 1)),
    "boundary": (["B-NP", "I-NP", "O"], ["B-NP", "O", "O"], (1, 1, 0)),
    "type": (["B-NP", "I-NP"], ["B-VP", "I-VP"], (1, 1, 0)),
    "cut in two": (["B-NP", "I-NP"], ["B-NP", "B-NP"], (1, 2, 0)),
    "starts with I": (["O", "B-NP"], ["O", "I-NP"], (1, 1, 1)),  # I-NP after O starts a chunk
    "type changes": (["B-NP", "B-VP"], ["B-NP", "I-VP"], (2, 2, 2)),
    "no chunk": (["B-NP", "O"], ["O", "O"], (1, 0, 0)),
}


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_are_counted_as_conlleval_does(name):
    gold, ours, (wanted, found, both) = CHUNKS[name]
    # The second sentence adds one correct chunk, so that no score is undefined.
    scores = chunk_scores([gold, ["B-NP"]], [ours, ["B-NP"]], ["NP", "VP"])
    precision, recall = (both + 1) / (found + 1), (both + 1) / (wanted + 1)
    assert scores["precision"] == pytest.approx(precision)
    assert scores["recall"] == pytest.approx(recall)
    assert scores["f1"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_a_text_without_chunks_has_an_f1_of_zero():
    assert chunk_scores([["O", "O"]], [["O", "O"]], ["NP"])["f1"] == 0


def test_chunk_scores_without_nervaluate_are_a_user_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "nervaluate", None)
    with pytest.raises(UserError, match=r"nervaluate.*pip install"):
        chunk_scores([["O"]], [["O"]], ["NP"])


def test_labels_that_are_no_chunks_have_no_f1(tmp_path):
    config = small_config("columns", tmp_path)
    for path in tmp_path.glob("*.txt"):
        text = path.read_text()
        path.write_text(text.replace("B-", "b").replace("I-", "i"))
    config.train.eval_metric = "f1"
    with pytest.raises(UserError, match=r"eval_metric=f1.*accuracy"):
        make_task(config)
    config.train.eval_metric = "accuracy"
    task = make_task(config)
    assert task.prepared.vocabularies["label"].chunks == []


def test_scores_of_classes():
    ours, gold = list("aabbc"), list("abbbb")
    table = confusion(ours, gold, ["a", "b", "c"])
    assert table["b"] == {"a": 1, "b": 2, "c": 1} and table["c"] == {"a": 0, "b": 0, "c": 0}
    assert macro_f1(ours, gold) == pytest.approx((2 / 3 + 4 / 6) / 2)


@pytest.fixture(scope="module")
def series_run(tmp_path_factory, alone):
    """Return the config and the workdir of a trained labelling run."""
    folder = tmp_path_factory.mktemp("series")
    config = small_config("series", folder / "corpus")
    train_run(config, folder / "run", alone)
    return config, folder / "run"


@pytest.mark.parametrize(
    ("command", "facts"),
    [
        (["eval.py", "--decode.beam=3"], ["--decode.beam", "labelling"]),
        (["eval.py", "--beams=1,2"], ["--beams", "labelling"]),
        (["predict.py", "--score=x"], ["--score", "labelling run"]),
    ],
)
def test_a_program_that_needs_a_translation_run_says_so(command, facts, series_run):
    done = call(*command, f"--workdir={series_run[1]}", check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("error: ")
    assert all(fact in line for fact in facts)


def test_a_report_folder_that_is_a_file_is_a_user_error(series_run, tmp_path, alone):
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(UserError, match=r"taken.*File exists"):
        score_run(*series_run, alone, "best", ReportOptions("test", taken, pictures=0, page=0))
