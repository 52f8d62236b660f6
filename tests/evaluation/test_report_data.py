"""Tests of the data of report.html: names of scores, charts, opening example, comparisons."""

import numpy as np
import pytest

from evaluation.charts import chart_groups, position_chart
from evaluation.comparison import comparison_rows
from evaluation.explorer import focus_token, opening_example
from evaluation.metrics import METRICS, describe_scores, metric_of, print_scores


def test_every_metric_has_a_readable_label():
    assert METRICS["bleu"].label == "BLEU (sacreBLEU, 0–100, higher is better)"
    assert METRICS["perplexity"].label == "Perplexity (per token, lower is better)"
    assert METRICS["alignment_error"].label == "Alignment error rate (%, lower is better)"
    # This baseline does not depend on the model, so neither direction is better.
    assert METRICS["most_frequent"].direction == ""
    assert metric_of("a new score").label == "a new score"
    assert len({metric.name for metric in METRICS.values()}) == len(METRICS)


def test_scores_are_shown_in_their_units(capsys):
    exact, loss = describe_scores({"exact": 0.5, "loss": float("nan")}, {"loss": "−log p"})
    assert (exact["name"], exact["value"], exact["unit"]) == ("Exact match", "50.00", "%")
    assert (loss["value"], loss["signature"]) == ("n/a", "−log p")
    print_scores({"exact": 0.5}, {})
    assert "Exact match: 50.00 (%, higher is better)" in capsys.readouterr().out


def part(label, **scores):
    return {"label": label, "sentences": 1000, "scores": scores}


def test_tied_charts_are_sentences_and_single_buckets_are_left_out():
    curves = {
        "source length": [part("1–5", exact=0.0, tokenized_bleu=30.0),
                          part("6–10", exact=0.0, tokenized_bleu=20.0)],
        "unknown source tokens": [part("0", exact=0.0, tokenized_bleu=25.0)],
    }  # fmt: skip
    (group,) = chart_groups(curves)
    assert group["title"] == "Scores by source length in tokens"
    assert group["notes"] == ["Exact match is 0.00 % in every bucket."]
    (chart,) = group["charts"]
    assert chart["title"] == "Tokenized BLEU (0–100, higher is better)"
    assert [bar["text"] for bar in chart["bars"]] == ["30.00", "20.00"]
    assert chart["bars"][0]["note"] == "1,000 sentences"


def test_positions_are_drawn_unless_they_are_tied():
    even = {"effective": 2.0, "tokens": 40}
    assert position_chart([even, even]) is None and position_chart([]) is None
    chart = position_chart([even, {"effective": 1.5, "tokens": 30}])
    assert chart is not None and [bar["label"] for bar in chart["bars"]] == ["1", "2"]


def example(target, heaviest, length=10, correct=True, weight=0.9):
    """Return an example in which target token t attends most to source position heaviest[t]."""
    source = [*(f"w{i}" for i in range(length - 1)), "</s>"]
    weights = np.full((len(target), length), (1 - weight) / (length - 1))
    weights[range(len(target)), heaviest] = weight
    best = {"tokens": target, "attention": {"attention": weights.tolist()}}
    return {"source": source, "correct": correct, "hypotheses": [best]}


REORDERED = (["Samstag", "1", "Oktober", "</s>"], [0, 3, 2, 9])


def focus_of(found):
    best = found["hypotheses"][0]
    weights = np.array(best["attention"]["attention"])
    return focus_token(weights, found["source"], best["tokens"])


def test_the_highlighted_token_is_one_to_which_attention_moves_backward():
    assert focus_of(example(*REORDERED)) == 2
    # Attention never moves backward here, so the first token is highlighted.
    assert focus_of(example(["a", "b", "</s>"], [0, 1, 2])) == 0
    # Attention moves backward only at "." and </s>, which are never highlighted.
    assert focus_of(example(["a", ".", "b", "</s>"], [3, 0, 4, 1])) == 0
    assert focus_of(example(["a", "b", "c", "longer", "</s>"], [3, 2, 7, 5, 9])) == 3
    assert focus_of(example(["</s>"], [0])) == 0


def test_the_page_opens_with_a_correct_reordered_sentence_of_moderate_length():
    monotone = example(["a", "b", "c", "</s>"], [0, 1, 2, 9])
    short, long = example(REORDERED[0], [0, 3, 2, 4], length=5), example(*REORDERED, length=40)
    wrong = example(*REORDERED, correct=False)
    assert opening_example([monotone, wrong, short, long, example(*REORDERED)]) == 4
    # A moderate length matters most, then a correct translation, then reordering.
    assert opening_example([short, wrong, monotone]) == 2
    assert opening_example([long, wrong]) == 1
    assert opening_example([]) == 0
    plain = {"source": ["a"] * 9, "correct": True, "hypotheses": [{"attention": {}, "tokens": []}]}
    assert opening_example([plain, plain]) == 0


def test_a_comparison_has_scores_difference_and_p_value():
    runs = {
        "this": {"score": 0.75, "interval": 0.02, "p": 0.0123},
        "other": {"score": 0.8, "interval": 0.01, "p": 0.0123},
    }
    bleu = {"this": {"score": 31.0, "interval": 1.5, "p": 0.2}, "other": runs["other"]}
    exact, scored = comparison_rows({"scores": {"exact": runs, "bleu": bleu}})
    assert exact["label"] == "Exact match (%, higher is better)"
    shown = [exact[name] for name in ("this", "other", "difference", "p")]
    assert shown == ["75.00 ± 2.00", "80.00 ± 1.00", "−5.00", ".012"]
    assert scored["this"] == "31.00 ± 1.50"


@pytest.mark.parametrize("key", sorted(METRICS))
def test_percentages_are_stored_as_fractions(key):
    assert METRICS[key].scale == (100 if METRICS[key].unit == "%" else 1)
