"""Tests of the comparison at equal budgets: learning curves, rankings, Pareto fronts and plots."""

import dataclasses
import json
from pathlib import Path

import pytest

import reproduce as reproducing
from errors import UserError
from papers import speeds
from papers.budgets import (
    Budget,
    Evaluated,
    Runs,
    architecture_of,
    best_rates,
    find_budgets,
    learning_curve,
    mean_curves,
    outer_rates,
    pareto_front,
    rank,
    score_at,
)
from papers.budgets_section import draw_budgets, quantity, rates_text, summary
from papers.plan import Plan, make_plan
from papers.registry import find_targets
from papers.table import Row
from tests.papers.test_reproduce import QUICK
from tests.programs import ENVIRONMENT

FRONTIER = find_targets()["frontier"]


def curve(*scores, tokens=100.0, operations=1e9, seconds=2.0):
    """Return a learning curve with the costs of one epoch between two evaluations."""
    return [
        Evaluated(n * tokens, n * operations, n * seconds, score)
        for n, score in enumerate(scores, 1)
    ]


# Per epoch, the second architecture needs as many tokens, half of the operations and the same time.
SLOW = Runs("slow, rate 1", "slow", 1000, [curve(10.0, 20.0, 24.0, 25.0), curve(10, 20, 24, 25.2)])
SLOW_2 = Runs("slow, rate 2", "slow", 1000, [curve(12.0, 18, 20, 21), curve(12.2, 18, 20, 21)])
FAST = Runs(
    "fast, rate 1", "fast", 500,
    [curve(5.0, 15.0, 20.0, 22.0, 30.0, 31.0, 32.0, 33.0, operations=5e8),
     curve(5.2, 15.0, 20.0, 22.2, 30.0, 31.0, 32.0, 33.2, operations=5e8)],
)  # fmt: skip
RUNS = [SLOW, SLOW_2, FAST]


def test_learning_curves_have_costs_and_the_best_score_so_far():
    train = {"kind": "train", "time": 1.0, "count_per_second": 10.0, "teraflops": 2.0}
    lines = [
        {"kind": "run", "step": 0, "time": 0.0, "parameters": 7},
        {**train, "step": 10, "count": 100.0},
        {"kind": "valid", "step": 10, "time": 1.0, "bleu": 20.0},
        {**train, "step": 20, "count": 200.0},
        {"kind": "valid", "step": 20, "time": 2.0, "bleu": 15.0},
        {"kind": "valid", "step": 30, "time": 2.0, "bleu": None},
    ]
    assert learning_curve(lines, "bleu", 0.5) == [
        Evaluated(100.0, 20e12, 5.0, 20.0), Evaluated(200.0, 40e12, 10.0, 20.0),
        Evaluated(200.0, 40e12, 15.0, 20.0),
    ]  # fmt: skip


def test_scores_are_interpolated_between_evaluations():
    found = curve(10.0, 20.0, 24.0)
    assert score_at(found, "tokens", 100) == 10 and score_at(found, "tokens", 250) == 22
    assert score_at(found, "seconds", 6) == 24 and score_at(found, "operations", 2e9) == 20
    assert score_at(found, "tokens", 305) == 24 and score_at(found, "tokens", 99) == 10  # tolerance
    assert score_at(found, "tokens", 50) is None  # before the first evaluation
    assert score_at(found, "tokens", 310) is None  # after the end of the run


def test_budgets_are_shares_of_the_first_architecture():
    assert not [*find_budgets([FAST], "slow")]
    assert [*find_budgets([FAST, SLOW], "slow")][:4] == [
        Budget("tokens", 100), Budget("tokens", 200), Budget("tokens", 400),
        Budget("operations", 1e9),
    ]  # fmt: skip


def test_rankings_use_the_best_rate_at_each_budget_and_test_differences():
    first = rank(RUNS, Budget("tokens", 100))
    assert first and first.best.row == "slow, rate 2" and first.best.mean == pytest.approx(12.1)
    assert [result.architecture for result in first.worse] == ["fast"] and not first.ties
    last = rank(RUNS, Budget("tokens", 400))
    assert last and last.best.row == "slow, rate 1"
    equal = rank(RUNS, Budget("operations", 2e9))
    assert equal and equal.best.architecture == "fast" and equal.of("slow") is not None
    far = rank(RUNS, Budget("tokens", 800))
    assert far and far.missing == ["slow"] and far.of("slow") is None
    assert rank(RUNS, Budget("tokens", 10_000)) is None


def test_the_summary_names_winners_ties_and_missing_runs():
    found = [
        rank(RUNS, Budget(*b)) for b in (("tokens", 100), ("operations", 2e9), ("tokens", 800))
    ]
    one_seed = [runs._replace(curves=runs.curves[:1]) for runs in RUNS]
    found.append(rank(one_seed, Budget("seconds", 8.0)))
    assert summary([ranking for ranking in found if ranking]) == [
        "Best architecture, of 4 budgets: slow at 2, fast at 2.",
        "100 tokens: slow (12.10), significantly better than the second, fast (5.10).",
        "2 GFLOP: fast (22.10), significantly better than the second, slow (20.00).",
        "800 tokens: fast (33.10); no result: slow.",
        "8 s: slow (25.00); not significantly worse: fast (22.00).",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("tokens", 4.1e6, "4.1 M tokens"), ("tokens", 12.0, "12 tokens"),
        ("tokens", 1000.0, "1 k tokens"), ("operations", 3.94e14, "394 TFLOP"),
        ("seconds", 720.0, "720 s"), ("seconds", 25_500.0, "7 h 05 min"),
    ],
)  # fmt: skip
def test_quantities_have_units(kind, value, text):
    assert quantity(kind, value) == text


def test_the_best_learning_rate_is_that_of_the_best_final_score():
    assert best_rates([SLOW, SLOW_2]) == {"slow": 1.0}


def test_budgets_at_which_the_best_rate_is_an_outer_one_are_counted():
    middle = SLOW._replace(row="slow, rate 1.5", curves=[curve(11.0, 30.0, 30.0, 30.0)] * 2)
    budgets = [Budget("tokens", 100), Budget("tokens", 400), Budget("tokens", 800)]
    runs = [SLOW, middle, SLOW_2, FAST]
    rankings = [ranking for budget in budgets if (ranking := rank(runs, budget))]
    # slow: best with rate 2 of 1, 1.5 and 2, then with 1.5; fast has a single rate.
    assert outer_rates(runs, rankings) == {"slow": 1, "fast": 3}
    assert rates_text({"a": 0}, 3).endswith("At no budget is the best rate the smallest or the "
                                            "largest one.")  # fmt: skip
    found = rates_text({"a": 0, "b, c": 2, "d": 3}, 3)
    assert found.endswith("may be better: b, c: 2; d: 3.")


def test_the_speed_is_the_median_round_without_the_first():
    lines = [{"kind": "train", "count": 100.0 * n, "count_per_second": speed}
             for n, speed in enumerate([1.0, 50.0, 100.0, 25.0], 1)]  # fmt: skip
    lines.insert(2, {"kind": "valid"})
    assert speeds.median_round(lines, 10) == pytest.approx(0.2)


def test_the_pareto_front_leaves_out_surpassed_points(tmp_path):
    assert pareto_front([(2, 5.0), (1, 3.0), (1, 4.0), (3, 5.0)]) == [(1, 4.0), (2, 5.0)]
    curves = mean_curves(RUNS)
    assert [e.score for e in curves["slow"]] == pytest.approx([12.1, 20, 24, 25.1])
    path = tmp_path / "plot.png"
    draw_budgets(curves, {"slow": 1000, "fast": 500}, path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_all_architectures_have_the_same_number_of_rates():
    names = [architecture_of(row) for row in FRONTIER.rows]
    assert {names.count(name) for name in names} == {3} and len(set(names)) == 9
    for data in FRONTIER.data:
        for size in FRONTIER.sizes:  # the plan checks all configs
            plan = make_plan("frontier", FRONTIER, data, size, Path("results"), 0, "")
            assert plan.config(plan.table.rows[0]).optimizer.schedule == "inverse_sqrt"


def test_speeds_are_measured_once_and_kept(tmp_path, monkeypatch):
    plan = make_plan("frontier", FRONTIER, "dates", "tiny", tmp_path, 1, "")
    measured = []
    monkeypatch.setattr(speeds, "step_seconds", lambda config, timed: measured.append(1) or 0.5)
    monkeypatch.setattr(speeds, "_device", lambda: "a GPU")
    found = speeds.measure_speeds(plan)
    assert found == ("a GPU", dict.fromkeys(found[1], 0.5)) and len(measured) == 9
    monkeypatch.setattr(speeds, "_device", lambda: "another GPU")
    assert speeds.measure_speeds(plan) == found and len(measured) == 9
    path = plan.page_folder / "speeds.json"
    path.write_text(json.dumps({"device": "a GPU", "seconds": {"Cho 2014": 1.0}}))
    with pytest.raises(UserError, match="has times of a GPU, but not of Luong 2015, global"):
        speeds.measure_speeds(plan)


@pytest.mark.slow
def test_a_frontier_of_two_architectures(tmp_path, monkeypatch):
    """Train two architectures, and write the page with its section on budgets."""
    for name, value in ENVIRONMENT.items():  # reproduce.py passes it to training processes
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(speeds.measure_speeds, "__defaults__", (3,))
    changes = {"train.steps": 8, "train.eval_every": 2}
    rows = tuple(
        Row(f"{score}, rate 0.01", {"score": score}, changes) for score in ("dot", "general")
    )
    table = dataclasses.replace(FRONTIER, rows=rows)
    overrides = {**QUICK, "data.cache": str(tmp_path / "prepared")}
    plan = Plan("frontier", table, "dates", "tiny", tmp_path / "results", 1, overrides)
    page = reproducing.reproduce(plan, 1, "python reproduce.py frontier")
    text = page.read_text()
    assert "Results are on the validation split" in text
    assert "all measures are from the evaluation with the best value" in text
    assert "| p |" not in text
    assert "## Equal budgets" in text and "- Best architecture, of 9 budgets: " in text
    kept = json.loads((page.parent / "budgets.json").read_text())
    assert set(kept["runs"]) == {row.name for row in rows} and len(kept["budgets"]) == 9
    assert all(found["operations"] for found in kept["runs"]["dot, rate 0.01"]["curves"][0])
    assert (page.parent / "budgets.png").exists()
