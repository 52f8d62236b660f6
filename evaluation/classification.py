"""Scores, predictions and pictures of texts that are given a class."""

from textwrap import shorten
from typing import Any

import numpy as np
from jax.sharding import Mesh

from evaluation import predictions
from evaluation.pictures import highlighted, over_text
from evaluation.predictions import Prediction, Predictor, evenly
from evaluation.results import Wanted, corpus_name, keep, show, write_report
from tasks.classification import Classification
from tasks.task import Params
from training.loop import Evaluate, Evaluation

Shown = dict[str, Any]  # a text of the split as it was prepared: words and label


def make_evaluate(task: Classification, mesh: Mesh) -> Evaluate:
    """What the trainer calls: scores and samples of the validation split."""

    def describe(split: str, predicted: list[Prediction], count: int) -> Evaluation:
        return Evaluation({}, _samples(task, task.split(split)[0].texts(), predicted, count))

    return predictions.make_evaluate(task, mesh, describe)


def report(task: Classification, params: Params, mesh: Mesh, wanted: Wanted) -> None:
    """Scores a split, prints the scores, and writes them with all that was predicted."""
    looks = max(wanted.pictures, wanted.page)
    losses, predicted = Predictor(task, mesh)(params, wanted.split, looks)
    texts = task.split(wanted.split)[0].texts()
    ours = [task.labels.names[int(p["label"])] for p in predicted]
    gold = [text["label"] for text in texts]
    lines = [
        f"{own}\t{p['p']:.4f}\t{true}" for own, p, true in zip(ours, predicted, gold, strict=True)
    ]
    scores = losses | {"error": 1 - losses["accuracy"], "macro_f1": macro_f1(ours, gold)}
    result = keep(
        wanted,
        scores,
        "−log p of the class",
        lines,
        confusion=confusion(ours, gold, task.labels.names),
    )
    show(result, _samples(task, texts, predicted, 3))
    for number, (text, p) in enumerate(zip(texts, predicted, strict=True)):
        if number < wanted.pictures:
            _draw(task, text, p, number, wanted)
    if wanted.page:
        model = task.config.model
        title = f"{model.name}: {corpus_name(task.config.data)}"
        rows = "sentences" if model.name == "han" else "hops"
        terms = {"examples": "Texts", "source": "text", "target": rows}
        shown = zip(texts[: wanted.page], predicted, ours, strict=False)
        write_report(wanted, result, title, terms, [_for_page(*x) for x in shown])


def macro_f1(ours: list[str], gold: list[str]) -> float:
    """The mean over the classes of gold of their F1."""
    scores = []
    for name in sorted(set(gold)):
        hits = sum(o == g == name for o, g in zip(ours, gold, strict=True))
        scores.append(2 * hits / max(1, ours.count(name) + gold.count(name)))
    return float(np.mean(scores))


def confusion(ours: list[str], gold: list[str], names: list[str]) -> dict[str, dict[str, int]]:
    """How often each true class was given each class."""
    table = {name: dict.fromkeys(names, 0) for name in names}
    for own, true in zip(ours, gold, strict=True):
        table[true][own] += 1
    return table


def _sentences(text: Shown) -> list[list[str]]:
    words = text["words"]
    return words if isinstance(words[0], list) else [words]


def _samples(
    task: Classification, texts: list[Shown], predicted: list[Prediction], count: int
) -> list[dict[str, str]]:
    return [
        {
            "text": shorten(" ".join(word for part in _sentences(texts[i]) for word in part), 200),
            "ours": task.labels.names[int(predicted[i]["label"])],
            "gold": texts[i]["label"],
        }
        for i in evenly(len(texts), count)
    ]


def two_levels(text: Shown, p: Prediction) -> tuple[np.ndarray, list[np.ndarray]]:
    """The weight of every sentence, and of the words of each."""
    parts = _sentences(text)
    own = [p["words"][i][: len(words)] for i, words in enumerate(parts)]
    return p["sentences"][: len(parts)], own


def _draw(task: Classification, text: Shown, p: Prediction, number: int, wanted: Wanted) -> None:
    path = wanted.folder / f"attention-{number}.png"
    title = f"ours {task.labels.names[int(p['label'])]} ({p['p']:.2f}), gold {text['label']}"
    if "hops" in p:
        words = _sentences(text)[0]
        over_text(p["hops"][:, : len(words)], words, title, path)
    elif "sentences" in p:
        of_sentences, of_words = two_levels(text, p)
        highlighted(_sentences(text), of_words, of_sentences, title, path)


def _for_page(text: Shown, p: Prediction, ours: str) -> dict[str, Any]:
    """Rows over the words: the hops; or the document and each of its sentences."""
    words = [word for part in _sentences(text) for word in part]
    rows: dict[str, np.ndarray] = {}
    if "hops" in p:
        rows = {"all hops": p["hops"].mean(axis=0)[: len(words)]}
        rows |= {f"hop {i + 1}": hop[: len(words)] for i, hop in enumerate(p["hops"])}
    elif "sentences" in p:
        of_sentences, of_words = two_levels(text, p)
        rows["document"] = np.concatenate(
            [s * w for s, w in zip(of_sentences, of_words, strict=True)]
        )
        start = 0
        for i, (weight, own) in enumerate(zip(of_sentences, of_words, strict=True)):
            row = np.zeros(len(words))
            row[start : start + len(own)] = own
            rows[f"sentence {i + 1} ({weight:.2f})"] = row
            start += len(own)
    hypothesis = {
        "text": ours, "tokens": list(rows), "score": float(p["p"]),
        "attention": {"attention": [row.round(4).tolist() for row in rows.values()]},
    }  # fmt: skip
    return {"text": [" ".join(words), text["label"]], "source": words, "hypotheses": [hypothesis]}
