"""Validation and reports of cloze runs: scores, predictions, plots and report.html."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float

from evaluation import predictions
from evaluation.examples import ScoredExample
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
from tasks.cloze import Cloze
from tasks.task import Params
from training.loop import Evaluate, Evaluation

if TYPE_CHECKING:
    from evaluation.canvas import Picture

ShownQuestion = dict[str, Any]  # "passage", "query", "candidates" and "answer", as words


def make_evaluate(task: Cloze, mesh: Mesh) -> Evaluate:
    """Return the function that scores the validation split during training."""

    def describe(split: str, predicted: list[Prediction], count: int) -> Evaluation:
        return Evaluation({}, _samples(task, split, predicted, count))

    return predictions.make_evaluate(task, mesh, describe)


def report(task: Cloze, params: Params, mesh: Mesh, options: ReportOptions) -> None:
    """Score a split, print the scores, and write the report."""
    if options.faithfulness:
        check_predictions(task, params, options.split)
    attended = max(options.pictures, options.page)
    announce(f"predicting {len(task.split(options.split)[0]):,} questions")
    losses, predicted = Predictor(task, mesh, progress=True)(params, options.split, attended)
    questions = task.split(options.split)[0].texts()
    lines = [
        f"{answer(q, p)}\t{p['p']:.4f}\t{q['answer']}\t{' '.join(q['query'])}"
        for q, p in zip(questions, predicted, strict=True)
    ]
    scores = losses | {"most_frequent": most_frequent(questions)}
    faithfulness = explain_predictions(task, params, mesh, options.split, options.faithfulness)
    scored = [_example(q, answer(q, p)) for q, p in zip(questions, predicted, strict=True)]
    result = write_results(options, scores, "−log p of the answer", lines, scored, **faithfulness)
    print_results(result, _samples(task, options.split, predicted, 3))
    for number, (q, p) in enumerate(zip(questions, predicted, strict=True)):
        if number < options.pictures:
            title = f"predicted {answer(q, p)} ({p['p']:.2f}), gold {q['answer']}"
            draw_question(q, p, title, options.folder / f"attention-{number}.png")
    if options.page:
        title = f"{task.config.model.reader}: {corpus_name(task.config.data)}"
        terms = {
            "examples": "Cloze questions",
            "text": "Query",
            "source": "Passage",
            "target": "Query tokens (weight β)",
        }
        shown, budget = zip(questions[: options.page], predicted, strict=False), AttentionBudget()
        write_report(options, result, title, terms, [_for_page(*x, budget) for x in shown])


def _example(question: ShownQuestion, predicted: str) -> ScoredExample:
    """Return the entry of a question in examples.jsonl."""
    right = predicted == question["answer"]
    query = " ".join(question["query"])
    return ScoredExample(query, [question["answer"]], predicted, {"accuracy": [float(right), 1.0]})


def most_frequent(questions: list[ShownQuestion]) -> float:
    """Return the accuracy of predicting the candidate that is most frequent in the passage."""
    hits = [max(q["candidates"], key=q["passage"].count) == q["answer"] for q in questions]
    return sum(hits) / len(hits)


def answer(question: ShownQuestion, p: Prediction) -> str:
    """Return the candidate that the model predicts for the question."""
    return question["candidates"][int(p["answer"]) - 1]


def draw_question(
    question: Mapping[str, Any], p: Mapping[str, Any], title: str, path: Path | None = None
) -> "Picture":
    """Draw the attention weights of a question over its passage."""
    from evaluation import pictures  # here, because importing matplotlib is slow

    title += "; s = Σ β·α, (β)" * ("alpha" in p)
    return pictures.over_passage(
        rows(question, p), question["passage"], set(question["candidates"]), title, path
    )


def rows(
    question: Mapping[str, Any], p: Mapping[str, Any]
) -> dict[str, Float[np.ndarray, "passage"]]:
    """Map row labels to attention weights over the passage (Cui 2017).

    The first row is the paper's s, which the reader sums over the occurrences of each candidate.
    Each of the other rows is the attention α of one query word, and the row label contains the
    weight β of that word.
    """
    length = len(question["passage"])
    weights = {"answer (s)": p["s"][:length]}
    if "alpha" in p:
        for i, word in enumerate(question["query"]):
            weights[f"{i + 1} {word} ({p['beta'][i]:.2f})"] = p["alpha"][i, :length]
    return weights


def _samples(
    task: Cloze, split: str, predicted: list[Prediction], count: int
) -> list[dict[str, str]]:
    chosen = evenly(len(predicted), count)
    return [
        {
            "query": " ".join(question["query"]),
            "prediction": answer(question, predicted[i]),
            "gold": question["answer"],
        }
        for i, question in zip(chosen, task.split(split)[0].texts(chosen), strict=True)
    ]


def _for_page(question: ShownQuestion, p: Prediction, budget: AttentionBudget) -> dict[str, Any]:
    """Return the entry of a question in report.html."""
    weights = rows(question, p)
    hypothesis = {
        "text": answer(question, p),
        "tokens": list(weights), "score": float(p["p"]), "focus": 0,
        **budget.take({"attention": np.stack(list(weights.values()))}, digits=4),
    }  # fmt: skip
    return {
        "text": " ".join(question["query"]), "reference": question["answer"],
        "correct": hypothesis["text"] == question["answer"],
        "source": question["passage"], "hypotheses": [hypothesis],
    }  # fmt: skip
