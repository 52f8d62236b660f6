"""Tests of attention statistics and of the scores of parts of a split."""

import numpy as np
import pytest

from evaluation.curves import by_length, by_unknown
from evaluation.statistics import AttentionStatistics, measure


def test_statistics_match_values_computed_by_hand():
    even, sharp = np.full((1, 4), 0.25), np.array([[1.0, 0, 0, 0]])
    statistics = AttentionStatistics()
    statistics.add(measure(np.concatenate([even, sharp])))
    got = statistics.overall()
    assert got.entropy == pytest.approx(np.log(4) / 2)
    assert got.effective == pytest.approx((4 + 1) / 2)
    assert got.small == pytest.approx(3 / 8)
    assert got.largest == pytest.approx((0.25 + 1) / 2)
    assert (got.source, got.tokens) == (4, 2)


def test_weights_are_normalized_and_empty_rows_left_out():
    statistics = AttentionStatistics()
    statistics.add(measure(np.array([[0.2, 0.2], [0.0, 0.0]])))
    got = statistics.overall()
    assert (got.tokens, got.effective) == (1, pytest.approx(2))


def test_positions_stop_where_few_sentences_reach(monkeypatch):
    monkeypatch.setattr("evaluation.statistics.LEAST_SENTENCES", 2)
    statistics = AttentionStatistics()
    for length in (3, 2, 2):
        statistics.add(measure(np.tile([0.5, 0.5], (length, 1))))
    assert [s.tokens for s in statistics.by_position()] == [3, 3]
    empty_window = [0.0, 0.0]
    statistics.add(measure(np.array([empty_window, [1.0, 0.0]])))
    assert [s.tokens for s in statistics.by_position()] == [3, 4]


def test_parts_hold_every_sentence_once():
    lengths = [1, 5, 6, 12, 31, 40]
    parts = by_length(list(range(6)), lengths, lambda items: {"n": len(items)})
    assert [(p.label, p.sentences) for p in parts] == [
        ("1–5", 2), ("6–10", 1), ("11–15", 1), ("over 30", 2),
    ]  # fmt: skip
    assert sum(p.scores["n"] for p in parts) == 6
    longer = by_length([0, 1], [3, 75], lambda items: {})
    assert [p.label for p in longer] == ["1–10", "over 60"]
    unknown = by_unknown(list(range(5)), [0, 0, 2, 3, 9], lambda items: {})
    assert [(p.label, p.sentences) for p in unknown] == [("0", 2), ("2", 1), ("3 or more", 2)]
