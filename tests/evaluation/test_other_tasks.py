"""Training, scores, predictions, pictures and pages of the tasks beside translation."""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from evaluation.classification import confusion, macro_f1
from evaluation.labelling import chunk_scores
from evaluation.predictions import Predictor
from evaluation.registry import REPORTS
from evaluation.results import Wanted
from papers.runs import scores_of
from tasks.registry import make_task
from tests.small import TASKS, small_config
from training.checkpoints import Checkpoints

ROOT = Path(__file__).parents[2]
SCORES = {
    "series": {"loss"},
    "classes": {"loss", "accuracy"},
    "columns": {"loss", "accuracy", "precision", "recall", "f1"},
    "music": {"loss"},
    "sentence": {"loss", "accuracy", "error", "macro_f1"},
    "pooled": {"loss", "accuracy", "error", "macro_f1"},
    "han": {"loss", "accuracy", "error", "macro_f1"},
    "reader": {"loss", "accuracy"},
    "sum": {"loss", "accuracy"},
}
PICTURES = {
    "series": "prediction-0.png", "music": "prediction-0.png", "sentence": "attention-0.png",
    "han": "attention-0.png", "reader": "attention-0.png", "sum": "attention-0.png",
}  # fmt: skip


def content(page: Path) -> dict:
    found = re.search(r'type="application/json">(.*?)</script>', page.read_text("utf-8"), re.S)
    return json.loads(found[1])


@pytest.mark.parametrize("name", TASKS)
def test_a_run_from_corpus_to_page(name, tmp_path, mesh):
    config, workdir = small_config(name, tmp_path / "corpus"), tmp_path / "run"
    scores = scores_of(config, workdir, "test")
    assert set(scores) == SCORES[name] and all(map(np.isfinite, scores.values()))
    assert (workdir / "log.jsonl").read_text().count('"kind": "valid"') == 2

    task, folder = make_task(config), workdir / "eval" / "test"
    with contextlib.closing(Checkpoints(workdir, read_only=True)) as checkpoints:
        steps = checkpoints.find("last")
        params = checkpoints.restore_params(task, config, mesh, steps)
    REPORTS[config.task](task, params, mesh, Wanted("test", steps, folder, pictures=1, page=3))
    assert {path.name for path in folder.glob("*.png")} == {PICTURES.get(name)} - {None}
    written = (folder / "predictions.txt").read_text().removesuffix("\n").split("\n")
    separate = 1 if config.task != "labelling" else 0
    count = len(task.prepared.split("test"))
    assert len(written) == count if separate else written.count("") == count
    page = content(folder / "report.html")
    assert len(page["pictures"]) == (name in PICTURES)
    assert len(page["sentences"]) == (0 if name in ("series", "music") else 3)
    for sentence in page["sentences"]:
        for rows in sentence["hypotheses"][0]["attention"].values():
            assert {len(row) for row in rows} <= {len(sentence["source"])}
    assert scores_of(config, workdir, "test")  # read, not trained again


def test_predictions_come_in_the_corpus_order(tmp_path, mesh):
    task = make_task(small_config("columns", tmp_path))
    params = task.init(jax.random.key(0))
    _, found = Predictor(task, mesh)(params, "test")
    split = task.prepared.split("test")
    assert len(found) == len(split)
    for i, prediction in enumerate(found):
        example = next(split.examples(np.array([i])))
        batch = {name: values[None] for name, values in example.items()}
        alone = task.predict(params, batch)["label"][0]
        np.testing.assert_array_equal(prediction["label"][: len(alone)], alone)


# By hand: chunks of gold, of ours, and those of both.
CHUNKS = {
    "all": (["B-NP", "I-NP", "O"], ["B-NP", "I-NP", "O"], (1, 1, 1)),
    "border": (["B-NP", "I-NP", "O"], ["B-NP", "O", "O"], (1, 1, 0)),
    "kind": (["B-NP", "I-NP"], ["B-VP", "I-VP"], (1, 1, 0)),
    "cut in two": (["B-NP", "I-NP"], ["B-NP", "B-NP"], (1, 2, 0)),
    "begun inside": (["O", "B-NP"], ["O", "I-NP"], (1, 1, 1)),  # conlleval begins it there
    "kind changes": (["B-NP", "B-VP"], ["B-NP", "I-VP"], (2, 2, 2)),
    "nothing": (["B-NP", "O"], ["O", "O"], (1, 0, 0)),
}


@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_are_counted_as_conlleval_does(name):
    gold, ours, (wanted, found, both) = CHUNKS[name]
    scores = chunk_scores([gold, ["B-NP"]], [ours, ["B-NP"]])  # one more that is right
    precision, recall = (both + 1) / (found + 1), (both + 1) / (wanted + 1)
    assert scores["precision"] == pytest.approx(precision)
    assert scores["recall"] == pytest.approx(recall)
    assert scores["f1"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_labels_that_are_no_chunks_have_no_f1():
    assert chunk_scores([["over", "under"]], [["over", "over"]]) == {}


def test_scores_of_classes():
    ours, gold = list("aabbc"), list("abbbb")
    table = confusion(ours, gold, ["a", "b", "c"])
    assert table["b"] == {"a": 1, "b": 2, "c": 1} and table["c"] == {"a": 0, "b": 0, "c": 0}
    assert macro_f1(ours, gold) == pytest.approx((2 / 3 + 4 / 6) / 2)


def test_programs_refuse_what_belongs_to_translation(tmp_path):
    scores_of(small_config("series", tmp_path / "corpus"), tmp_path / "run", "test")

    def said(*command: str) -> str:
        own = [sys.executable, *command, f"--workdir={tmp_path / 'run'}"]
        result = subprocess.run(
            own, cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert result.returncode == 1 and "Traceback" not in result.stderr
        return result.stderr

    assert "--decode.beam: a run of labelling decodes nothing" in said("eval.py", "--decode.beam=3")
    assert "only translation runs can translate" in said("translate.py")
