"""Scores, predictions and pictures of sequences that are labelled step by step."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh
from nervaluate import Evaluator

from evaluation import predictions
from evaluation.pictures import piano_rolls, two_series
from evaluation.predictions import Prediction, Predictor, evenly
from evaluation.results import Wanted, corpus_name, keep, show, write_report
from tasks.labelling import Labelling
from tasks.task import Params
from training.loop import Evaluate, Evaluation

Labels = list[list[str]]
LOSSES = {
    "values": "mean squared error a step",
    "classes": "−log p a step",
    "notes": "−log p a frame",
}


def make_evaluate(task: Labelling, mesh: Mesh) -> Evaluate:
    """What the trainer calls: scores and samples of the validation split."""

    def describe(split: str, predicted: list[Prediction], count: int) -> Evaluation:
        if task.kind != "classes":
            return Evaluation({})
        ours, gold = label_names(task, split, predicted)
        return Evaluation(_more_scores(task, ours, gold), _samples(task, split, ours, gold, count))

    return predictions.make_evaluate(task, mesh, describe)


def label_names(
    task: Labelling, split: str, predictions: list[Prediction]
) -> tuple[Labels, Labels]:
    """Predicted and true classes, by name."""
    known = np.array(task.prepared.vocabularies["label"].names)
    gold = [known[example["label"]].tolist() for example in _examples(task, split)]
    ours = [
        known[prediction["label"][: len(own)]].tolist()
        for prediction, own in zip(predictions, gold, strict=True)
    ]
    return ours, gold


def _more_scores(task: Labelling, ours: Labels, gold: Labels) -> dict[str, float]:
    kinds = task.prepared.vocabularies["label"].chunks
    return chunk_scores(gold, ours, kinds) if kinds else {}


def _examples(task: Labelling, split: str) -> Any:
    own = task.split(split)[0]
    return own.examples(np.arange(len(own)))


def chunk_scores(gold: Labels, ours: Labels, kinds: list[str]) -> dict[str, float]:
    """Precision, recall and F1 of whole chunks, borders and kind right, as by conlleval."""
    strict = Evaluator(gold, ours, tags=kinds, loader="list").evaluate()["overall"]["strict"]
    return {"precision": strict.precision, "recall": strict.recall, "f1": strict.f1}


def report(task: Labelling, params: Params, mesh: Mesh, wanted: Wanted) -> None:
    """Scores a split, prints the scores, and writes them with all that was predicted."""
    losses, predicted = Predictor(task, mesh)(params, wanted.split)
    model = task.config.model
    title = f"{model.network} {model.cell}: {corpus_name(task.config.data)}"
    if task.kind != "classes":
        result = keep(wanted, losses, LOSSES[task.kind], _numbers(task, wanted.split, predicted))
        show(result, ())
        _draw(task, wanted, predicted)
        if wanted.page:
            write_report(wanted, result, title)
        return
    ours, gold = label_names(task, wanted.split, predicted)
    texts = task.split(wanted.split)[0].texts()
    lines = [
        "".join(
            f"{' '.join(row)}\n"
            for row in zip(text.get("word", ["-"] * len(own)), true, own, strict=True)
        )
        for text, own, true in zip(texts, ours, gold, strict=True)
    ]
    scores = losses | _more_scores(task, ours, gold)
    result = keep(wanted, scores, LOSSES[task.kind], lines)
    show(result, _samples(task, wanted.split, ours, gold, 3))
    if "word" not in texts[0]:
        _draw(task, wanted, predicted)
    if wanted.page:
        shown = zip(texts, ours, gold, strict=True) if "word" in texts[0] else ()
        terms = {"examples": "Sequences", "source": "steps", "target": "labels (gold where wrong)"}
        examples = [_for_page(*x) for x in itertools.islice(shown, wanted.page)]
        write_report(wanted, result, title, terms, examples)


def _samples(
    task: Labelling, split: str, ours: Labels, gold: Labels, count: int
) -> list[dict[str, str]]:
    texts = task.split(split)[0].texts()
    return [
        {"words": " ".join(texts[i]["word"]), "ours": " ".join(ours[i]), "gold": " ".join(gold[i])}
        for i in evenly(len(texts), count)
        if "word" in texts[i]
    ]


def _numbers(task: Labelling, split: str, predictions: list[Prediction]) -> list[str]:
    """A line a step and a blank one after a sequence: values, or probabilities of the notes."""
    lines = []
    for prediction, example in zip(predictions, _examples(task, split), strict=True):
        steps = len(example["label"]) - (task.kind == "notes")
        rows = prediction["label"][:steps].tolist()
        lines.append("".join("\t".join(f"{x:.4f}" for x in row) + "\n" for row in rows))
    return lines


def _draw(task: Labelling, wanted: Wanted, predictions: list[Prediction]) -> None:
    pairs = zip(predictions, _examples(task, wanted.split), strict=True)
    for number, (prediction, example) in enumerate(pairs):
        if number == wanted.pictures:
            return
        gold, path = example["label"], wanted.folder / f"prediction-{number}.png"
        if task.kind == "notes":
            gold = gold[1:]
            piano_rolls(gold, prediction["label"][: len(gold)], path)
        else:
            two_series(gold.ravel(), prediction["label"][: len(gold)].ravel(), path)


def _for_page(text: dict[str, list[str]], ours: Sequence[str], gold: Sequence[str]) -> dict:
    pairs = list(zip(ours, gold, strict=True))
    right = sum(own == true for own, true in pairs)
    hypothesis = {
        "text": f"{right} of {len(pairs)} right", "score": None, "attention": {},
        "tokens": [own if own == true else f"{own} ({true})" for own, true in pairs],
    }  # fmt: skip
    text_of = [" ".join(text["word"]), " ".join(gold)]
    return {"text": text_of, "source": text["word"], "hypotheses": [hypothesis]}
