"""Scores, predictions and pictures of readers."""

from typing import Any

import numpy as np
from jax.sharding import Mesh

from evaluation import predictions
from evaluation.pictures import over_passage
from evaluation.predictions import Prediction, Predictor, evenly
from evaluation.results import Wanted, corpus_name, keep, show, write_report
from tasks.cloze import Cloze
from tasks.task import Params
from training.loop import Evaluate, Evaluation

Shown = dict[str, Any]  # a question of the split as it was prepared


def make_evaluate(task: Cloze, mesh: Mesh) -> Evaluate:
    """What the trainer calls: scores and samples of the validation split."""

    def describe(split: str, predicted: list[Prediction], count: int) -> Evaluation:
        return Evaluation({}, _samples(task.split(split)[0].texts(), predicted, count))

    return predictions.make_evaluate(task, mesh, describe)


def report(task: Cloze, params: Params, mesh: Mesh, wanted: Wanted) -> None:
    """Scores a split, prints the scores, and writes them with all that was answered."""
    looks = max(wanted.pictures, wanted.page)
    losses, predicted = Predictor(task, mesh)(params, wanted.split, looks)
    questions = task.split(wanted.split)[0].texts()
    lines = [
        f"{answer(q, p)}\t{p['p']:.4f}\t{q['answer']}\t{' '.join(q['query'])}"
        for q, p in zip(questions, predicted, strict=True)
    ]
    result = keep(
        wanted, losses | {"most_frequent": most_frequent(questions)}, "−log p of the answer", lines
    )
    show(result, _samples(questions, predicted, 3))
    for number, (q, p) in enumerate(zip(questions, predicted, strict=True)):
        if number < wanted.pictures:
            path = wanted.folder / f"attention-{number}.png"
            title = f"ours {answer(q, p)} ({p['p']:.2f}), gold {q['answer']}"
            title += "; s = Σ β·α, (β)" * ("alpha" in p)
            over_passage(rows(q, p), q["passage"], set(q["candidates"]), title, path)
    if wanted.page:
        title = f"{task.config.model.reader}: {corpus_name(task.config.data)}"
        terms = {"examples": "Questions", "source": "passage", "target": "query"}
        shown = zip(questions[: wanted.page], predicted, strict=False)
        write_report(wanted, result, title, terms, [_for_page(q, p) for q, p in shown])


def most_frequent(questions: list[Shown]) -> float:
    """How often the candidate that the passage names most often is the answer: what a reader that
    learnt nothing would get."""
    hits = [max(q["candidates"], key=q["passage"].count) == q["answer"] for q in questions]
    return sum(hits) / len(hits)


def answer(question: Shown, p: Prediction) -> str:
    return question["candidates"][int(p["answer"]) - 1]


def rows(question: Shown, p: Prediction) -> dict[str, np.ndarray]:
    """Weights over the passage: s, which is summed for the answer, and α of every query word, under
    names that say how much the word counts (β)."""
    length = len(question["passage"])
    found = {"answer (s)": p["s"][:length]}
    if "alpha" in p:
        for i, word in enumerate(question["query"]):
            found[f"{i + 1} {word} ({p['beta'][i]:.2f})"] = p["alpha"][i, :length]
    return found


def _samples(
    questions: list[Shown], predicted: list[Prediction], count: int
) -> list[dict[str, str]]:
    return [
        {
            "query": " ".join(questions[i]["query"]),
            "ours": answer(questions[i], predicted[i]),
            "gold": questions[i]["answer"],
        }
        for i in evenly(len(questions), count)
    ]


def _for_page(question: Shown, p: Prediction) -> dict[str, Any]:
    own = rows(question, p)
    hypothesis = {
        "text": answer(question, p),
        "tokens": list(own), "score": float(p["p"]),
        "attention": {"attention": [row.round(4).tolist() for row in own.values()]},
    }  # fmt: skip
    text = [" ".join(question["query"]), question["answer"]]
    return {"text": text, "source": question["passage"], "hypotheses": [hypothesis]}
