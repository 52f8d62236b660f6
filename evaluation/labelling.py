"""Validation and reports of labelling runs: scores, predictions, plots and report.html."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from errors import require_packages
from evaluation import predictions
from evaluation.examples import ScoredExample
from evaluation.faithfulness_report import no_attention
from evaluation.predictions import Prediction, Predictor, evenly
from evaluation.progress import announce
from evaluation.results import (
    ReportOptions,
    corpus_name,
    print_results,
    write_report,
    write_results,
)
from tasks.labelling import Labelling
from tasks.task import Params
from training.loop import Evaluate, Evaluation

LabelNames = list[list[str]]  # class labels: one list per sequence, one label per time step
LOSSES = {
    "values": "mean squared error per time step",
    "classes": "−log p per time step",
    "notes": "−log p per frame",
}


def make_evaluate(task: Labelling, mesh: Mesh) -> Evaluate:
    """Return the function that scores the validation split during training."""

    def describe(split: str, predicted: list[Prediction], count: int) -> Evaluation:
        if task.kind != "classes":
            return Evaluation({})
        labels, gold = label_names(task, split, predicted)
        return Evaluation(
            _additional_scores(task, labels, gold), _samples(task, split, labels, gold, count)
        )

    return predictions.make_evaluate(task, mesh, describe)


def label_names(
    task: Labelling, split: str, predicted: list[Prediction]
) -> tuple[LabelNames, LabelNames]:
    """Return the predicted labels and the gold labels of all sequences, as text."""
    known = np.array(task.prepared.vocabularies["label"].names)
    gold = [known[example["label"]].tolist() for example in _examples(task, split)]
    labels = [
        known[prediction["label"][: len(true)]].tolist()
        for prediction, true in zip(predicted, gold, strict=True)
    ]
    return labels, gold


def _additional_scores(task: Labelling, labels: LabelNames, gold: LabelNames) -> dict[str, float]:
    """Return precision, recall and F1 of chunks, or {} if the labels do not encode chunks."""
    types = task.prepared.vocabularies["label"].chunks
    return chunk_scores(gold, labels, types) if types else {}


def _examples(task: Labelling, split: str) -> Any:
    """Return an iterator over all examples of a split, as dictionaries of arrays."""
    examples = task.split(split)[0]
    return examples.examples(np.arange(len(examples)))


def chunk_scores(gold: LabelNames, labels: LabelNames, types: list[str]) -> dict[str, float]:
    """Return precision, recall and F1 of chunks, as conlleval computes them.

    A chunk is correct if both of its boundaries and its type are correct.
    """
    require_packages("chunk F1", "nervaluate")
    from nervaluate import Evaluator

    strict = Evaluator(gold, labels, tags=types, loader="list").evaluate()["overall"]["strict"]
    return {name: float(getattr(strict, name)) for name in ("precision", "recall", "f1")}


def report(task: Labelling, params: Params, mesh: Mesh, options: ReportOptions) -> None:
    """Score a split, print the scores, and write the report."""
    if options.faithfulness:
        raise no_attention()
    announce(f"predicting {len(task.split(options.split)[0]):,} sequences")
    losses, predicted = Predictor(task, mesh, progress=True)(params, options.split)
    model = task.config.model
    title = f"{model.network} {model.cell}: {corpus_name(task.config.data)}"
    if task.kind != "classes":
        result = write_results(
            options, losses, LOSSES[task.kind], _numbers(task, options.split, predicted)
        )
        print_results(result, ())
        _draw(task, options, predicted)
        if options.page:
            write_report(options, result, title)
        return
    labels, gold = label_names(task, options.split, predicted)
    texts = task.split(options.split)[0].texts()
    lines = [
        "".join(
            f"{' '.join(row)}\n"
            for row in zip(text.get("word", ["-"] * len(guess)), true, guess, strict=True)
        )
        for text, guess, true in zip(texts, labels, gold, strict=True)
    ]
    scores = losses | _additional_scores(task, labels, gold)
    examples = [_example(*x) for x in zip(texts, labels, gold, strict=True)]
    result = write_results(options, scores, LOSSES[task.kind], lines, examples)
    print_results(result, _samples(task, options.split, labels, gold, 3))
    if "word" not in texts[0]:
        _draw(task, options, predicted)
    if options.page:
        shown = zip(texts, labels, gold, strict=True) if "word" in texts[0] else ()
        terms = {"examples": "Labelled sentences", "source": "Words and predicted labels"}
        examples = [_for_page(*x) for x in itertools.islice(shown, options.page)]
        write_report(options, result, title, terms, examples)


def _example(text: dict[str, Any], labels: Sequence[str], gold: Sequence[str]) -> ScoredExample:
    """Return the entry of a sequence in examples.jsonl."""
    right = sum(label == true for label, true in zip(labels, gold, strict=True))
    statistics = {"accuracy": [float(right), float(len(gold))]}
    return ScoredExample(
        " ".join(text.get("word", [])), [" ".join(gold)], " ".join(labels), statistics
    )


def _samples(
    task: Labelling, split: str, labels: LabelNames, gold: LabelNames, count: int
) -> list[dict[str, str]]:
    chosen = evenly(len(labels), count)
    return [
        {
            "words": " ".join(text["word"]),
            "prediction": " ".join(labels[i]),
            "gold": " ".join(gold[i]),
        }
        for i, text in zip(chosen, task.split(split)[0].texts(chosen), strict=True)
        if "word" in text
    ]


def _numbers(task: Labelling, split: str, predicted: list[Prediction]) -> list[str]:
    """Return one text per sequence, with one line of predicted numbers per time step.

    The numbers are values of a series, or probabilities of notes.
    """
    lines = []
    for prediction, example in zip(predicted, _examples(task, split), strict=True):
        steps = len(example["label"]) - (task.kind == "notes")
        rows = prediction["label"][:steps].tolist()
        lines.append("".join("\t".join(f"{x:.4f}" for x in row) + "\n" for row in rows))
    return lines


def _draw(task: Labelling, options: ReportOptions, predicted: list[Prediction]) -> None:
    from evaluation import pictures  # here, because importing matplotlib is slow

    pairs = zip(predicted, _examples(task, options.split), strict=True)
    for number, (prediction, example) in enumerate(pairs):
        if number == options.pictures:
            return
        gold, path = example["label"], options.folder / f"prediction-{number}.png"
        if task.kind == "notes":
            gold = gold[1:]
            pictures.piano_rolls(gold, prediction["label"][: len(gold)], path)
        else:
            pictures.two_series(gold.ravel(), prediction["label"][: len(gold)].ravel(), path)


def _for_page(text: dict[str, list[str]], labels: Sequence[str], gold: Sequence[str]) -> dict:
    """Return the entry of a sentence in report.html."""
    pairs = list(zip(labels, gold, strict=True))
    right = sum(label == true for label, true in pairs)
    hypothesis = {
        "text": f"{right} of {len(pairs)} labels correct", "score": None, "attention": {},
        "note": "", "focus": 0, "tokens": list(labels), "gold": list(gold),
    }  # fmt: skip
    return {
        "text": " ".join(text["word"]), "reference": "", "correct": right == len(pairs),
        "source": text["word"], "hypotheses": [hypothesis],
    }  # fmt: skip
