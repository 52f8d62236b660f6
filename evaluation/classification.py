"""Validation and reports of classification runs: scores, predictions, plots and report.html."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from configs.registry import model_title
from evaluation import predictions
from evaluation.examples import ScoredExample
from evaluation.explained import source_weights
from evaluation.faithfulness_report import check_predictions, explain_predictions
from evaluation.page import AttentionBudget
from evaluation.predictions import Prediction, Predictor, evenly
from evaluation.progress import announce
from evaluation.results import (
    ReportOptions,
    corpus_name,
    print_results,
    write_report,
    write_results,
)
from tasks.classification import Classification
from tasks.task import Params
from training.loop import Evaluate, Evaluation

if TYPE_CHECKING:
    from evaluation.canvas import Picture

MOST_CLASSES = 100  # of a confusion matrix; it is left out if there are more
ShownText = dict[str, Any]  # "words" (a list of words or of sentences) and "label"


def make_evaluate(task: Classification, mesh: Mesh) -> Evaluate:
    """Return the function that scores the validation split during training."""

    def describe(split: str, predicted: list[Prediction], count: int) -> Evaluation:
        return Evaluation({}, _samples(task, split, predicted, count))

    return predictions.make_evaluate(task, mesh, describe)


def report(task: Classification, params: Params, mesh: Mesh, options: ReportOptions) -> None:
    """Score a split, print the scores, and write the report."""
    if options.faithfulness:
        check_predictions(task, params, options.split)
    attended = max(options.pictures, options.page)
    announce(f"predicting {len(task.split(options.split)[0]):,} texts")
    losses, predicted = Predictor(task, mesh, progress=True)(params, options.split, attended)
    texts = task.split(options.split)[0].texts()
    labels = [task.labels.names[int(p["label"])] for p in predicted]
    gold = [text["label"] for text in texts]
    lines = [
        f"{label}\t{p['p']:.4f}\t{true}"
        for label, p, true in zip(labels, predicted, gold, strict=True)
    ]
    scores = losses | {"error": 1 - losses["accuracy"], "macro_f1": macro_f1(labels, gold)}
    faithfulness = explain_predictions(task, params, mesh, options.split, options.faithfulness)
    result = write_results(
        options,
        scores,
        "−log p of the class",
        lines,
        [
            ScoredExample(_joined(text), [true], label, {"accuracy": [float(label == true), 1.0]})
            for text, label, true in zip(texts, labels, gold, strict=True)
        ],
        **faithfulness,
        confusion=confusion(labels, gold, task.labels.names)
        if len(task.labels.names) <= MOST_CLASSES
        else {},
    )
    print_results(result, _samples(task, options.split, predicted, 3))
    for number, (text, p) in enumerate(zip(texts, predicted, strict=True)):
        if number < options.pictures:
            title = f"predicted {labels[number]} ({p['p']:.2f}), gold {text['label']}"
            draw_text(text, p, title, options.folder / f"attention-{number}.png")
    if options.page:
        model = task.config.model
        title = f"{model_title(task.config)}: {corpus_name(task.config.data)}"
        rows = "Sentences (weight)" if model.name == "han" else "Attention hops"
        terms = {"examples": "Classified texts", "source": "Text", "target": rows}
        shown = zip(texts[: options.page], predicted, labels, strict=False)
        budget = AttentionBudget()
        write_report(options, result, title, terms, [_for_page(*x, budget) for x in shown])


def macro_f1(labels: list[str], gold: list[str]) -> float:
    """Return the mean F1 over all class labels that occur in `gold`."""
    hits = Counter(g for o, g in zip(labels, gold, strict=True) if o == g)
    predicted, true = Counter(labels), Counter(gold)
    return float(np.mean([2 * hits[name] / (predicted[name] + true[name]) for name in true]))


def confusion(labels: list[str], gold: list[str], names: list[str]) -> dict[str, dict[str, int]]:
    """Count texts by gold label and predicted label."""
    table = {name: dict.fromkeys(names, 0) for name in names}
    for label, true in zip(labels, gold, strict=True):
        table[true][label] += 1
    return table


def _sentences(text: Mapping[str, Any]) -> list[list[str]]:
    words = text["words"]
    return words if isinstance(words[0], list) else [words]


def _joined(text: Mapping[str, Any]) -> str:
    """Return the words of a text, separated by spaces."""
    return " ".join(word for part in _sentences(text) for word in part)


def _samples(
    task: Classification, split: str, predicted: list[Prediction], count: int
) -> list[dict[str, str]]:
    chosen = evenly(len(predicted), count)
    return [
        {
            "text": shorten(_joined(text), 200),
            "prediction": task.labels.names[int(predicted[i]["label"])],
            "gold": text["label"],
        }
        for i, text in zip(chosen, task.split(split)[0].texts(chosen), strict=True)
    ]


def two_levels(
    text: Mapping[str, Any], p: Mapping[str, Any]
) -> tuple[Float[np.ndarray, "sentences"], list[Float[np.ndarray, "_"]]]:
    """Return the attention weight of every sentence, and the word weights of each sentence."""
    parts = _sentences(text)
    of_words = [p["words"][i][: len(words)] for i, words in enumerate(parts)]
    return p["sentences"][: len(parts)], of_words


def draw_text(
    text: Mapping[str, Any], p: Mapping[str, Any], title: str, path: Path | None = None
) -> "Picture | None":
    """Draw the attention weights of a classified text; return None if the model has none."""
    from evaluation import pictures  # here, because importing matplotlib is slow

    if "hops" in p:
        words = _sentences(text)[0]
        return pictures.over_text(p["hops"][:, : len(words)], words, title, path)
    if "sentences" in p:
        of_sentences, of_words = two_levels(text, p)
        return pictures.highlighted(_sentences(text), of_words, of_sentences, title, path)
    return None


def _for_page(
    text: ShownText, p: Prediction, label: str, budget: AttentionBudget
) -> dict[str, Any]:
    """Return the entry of a text in report.html: one row of weights per hop or per sentence."""
    words = [word for part in _sentences(text) for word in part]
    rows: dict[str, np.ndarray] = {}
    if "hops" in p:
        rows = {"mean of the hops": source_weights(p)[: len(words)]}
        rows |= {f"hop {i}": hop[: len(words)] for i, hop in enumerate(p["hops"])}
    elif "sentences" in p:
        of_sentences, of_words = two_levels(text, p)
        rows["document"] = np.concatenate(
            [s * w for s, w in zip(of_sentences, of_words, strict=True)]
        )
        start = 0
        for i, (weight, in_sentence) in enumerate(zip(of_sentences, of_words, strict=True)):
            row = np.zeros(len(words))
            row[start : start + len(in_sentence)] = in_sentence
            rows[f"sentence {i + 1} ({weight:.2f})"] = row
            start += len(in_sentence)
    named = {"attention": np.stack(list(rows.values()))} if rows else {}
    hypothesis = {
        "text": label, "tokens": list(rows), "score": float(p["p"]),
        "focus": 0, **budget.take(named, digits=4),
    }  # fmt: skip
    return {
        "text": " ".join(words), "reference": text["label"], "correct": label == text["label"],
        "source": words, "hypotheses": [hypothesis],
    }  # fmt: skip
