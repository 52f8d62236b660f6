"""The content of report.html for translations: hypotheses, attention weights, scores and charts."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from data.vocabulary import EOS
from decoding.forced import Attentions
from decoding.translator import Hypothesis
from evaluation.charts import chart_groups, position_chart
from evaluation.comparison import comparison_rows
from evaluation.evaluator import LONG, Evaluator, Translated
from evaluation.explorer import focus_token, opening_example
from evaluation.faithfulness_report import describe_faithfulness
from evaluation.forced_attention import readable
from evaluation.metrics import describe_scores
from evaluation.page import MOST_IN_HYPOTHESIS, TOO_LARGE, AttentionBudget, ReportPage
from evaluation.scores import exact_matches
from tasks.task import Params
from tasks.translation import Translation


def page_content(
    task: Translation,
    result: dict[str, Any],
    sentences: list[dict[str, Any]],
    notes: Mapping[str, str],
) -> ReportPage:
    """Return the content of report.html; `notes` explain how the scores are computed."""
    data, model = task.config.data, task.config.model
    decode, name = result["decode"], model.name
    if name == "seq2seq":
        parts = [model.decoder.type, model.attention.align, model.attention.score]
        name = parts[0] if model.attention.align == "none" else ", ".join(parts)
    against = result.get("against")
    return ReportPage(
        title=f"{name}: {data.corpus} {data.source}–{data.target}, {result['split']}",
        about=(
            f"{result['sentences']:,} sentences · checkpoint "
            f"{', '.join(map(str, result['checkpoints']))} · beam {decode['beam']} · "
            f"length penalty {decode['length_penalty']}"
        ),
        terms={
            "examples": "Translations", "source": "Source tokens", "target": "Hypothesis tokens",
            "prediction": "Hypothesis", "score": _score_label(decode),
            "reference": "Reference",
        },
        examples=sentences,
        opening=opening_example(sentences),
        scores=describe_scores(result["scores"], notes),
        comparison=against and against | {"rows": comparison_rows(against)},
        chart_groups=chart_groups(result["curves"]),
        attention=[{"name": name, **s} for name, s in result["attention"].items()],
        positions=position_chart(result["attention_by_position"]),
        faithfulness=describe_faithfulness(result.get("faithfulness", {})),
    )  # fmt: skip


def _score_label(decode: Mapping[str, Any]) -> str:
    """Return the name of the score that ranks the hypotheses of a sentence."""
    penalized = decode["length_penalty"] != "none" or decode["coverage"]
    return "log-probability with penalties" if penalized else "log-probability"


def page_sentences(
    evaluator: Evaluator, params: Params, translated: list[Translated]
) -> list[dict[str, Any]]:
    """Return the examples of report.html, with attention weights of all hypotheses that fit."""
    task, budget = evaluator.task, AttentionBudget()
    flat = [(t, hypothesis) for t in translated for hypothesis in t.hypotheses]
    sources = [np.array([*task.source.encode(t.pair.source), EOS]) for t, _ in flat]
    tokens = [readable([*task.source.tokens(t.pair.source), "</s>"]) for t, _ in flat]
    entries = [_page_hypothesis(h) for _, h in flat]
    for i, named in _page_attention(evaluator, params, sources, [h.ids for _, h in flat]):
        entries[i] |= budget.take(named)
        if named:
            target = entries[i]["tokens"]
            entries[i]["focus"] = focus_token(named["attention"], tokens[i], target)
    rest = zip(tokens, entries, strict=True)
    sentences = []
    for t in translated:
        (correct,) = exact_matches([t.best.text], [t.references], task.lowercase)
        some = list(itertools.islice(rest, len(t.hypotheses)))
        sentences.append(
            {
                "text": task.source.surface(t.pair.source),
                "reference": " | ".join(t.references), "correct": correct,
                "source": some[0][0], "hypotheses": [entry for _, entry in some],
            }
        )  # fmt: skip
    return sentences


def _page_attention(
    evaluator: Evaluator, params: Params, sources: list[np.ndarray], targets: list[np.ndarray]
) -> Iterator[tuple[int, Attentions]]:
    """Yield the index and the attention weights of every pair of token ids, short pairs first.

    Pairs that are too long for the page are left out, because their weights could fill the memory.
    """
    pairs = list(zip(sources, targets, strict=True))
    long = [max(len(source), len(target)) > LONG for source, target in pairs]
    groups = [[i for i in range(len(pairs)) if not long[i]]]
    groups += [[i] for i in range(len(pairs)) if long[i]]
    for group in groups:
        group = [i for i in group if len(sources[i]) * len(targets[i]) <= MOST_IN_HYPOTHESIS]
        if group:
            chosen = [sources[i] for i in group], [targets[i] for i in group]
            yield from zip(group, evaluator.attention_of(params, *chosen), strict=True)


def _page_hypothesis(h: Hypothesis) -> dict[str, Any]:
    """Return the entry of a hypothesis in report.html, still without attention weights."""
    tokens = readable(h.tokens)
    return {
        "text": h.text, "tokens": tokens, "score": h.score,
        "attention": {}, "note": TOO_LARGE, "focus": 0,
    }  # fmt: skip
