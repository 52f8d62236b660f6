"""Tests of the rounds of reproduce.py --decide, without training."""

import json

import numpy as np
import pytest

import reproduce as reproducing
from errors import UserError
from papers.claims import Claim
from papers.deciding import check_decidable, open_rows, schedule
from papers.plan import Plan
from papers.registry import find_targets
from papers.table import Row, Table
from papers.verdicts import decide_claims

MEANS = {"a": 1.0, "b": 5.0, "c": 5.1}  # the standard deviation over seeds is about 0.2
ROWS = (
    Row("a", {"score": "dot"}), Row("b", {"score": "general"}), Row("c", {"score": "concat"}),
    Row("ensemble of c", {"score": "concat"}, ensemble=True),
)  # fmt: skip
CLAIMS = (Claim("a", "b", "§1"), Claim("b", "c", "§2"))


def make_scored_plan(folder, claims=CLAIMS, seeds=3):
    table = Table("T", "s", "luong2015", ("bleu",), ROWS, ("dates",), 1.0, claims=claims)
    return Plan("t", table, "dates", "tiny", folder, seeds, {})


def score(plan, *_):
    """Write the results.json that `reproduce` would write after training all seeds of a plan."""
    rows = {}
    for row in plan.table.rows[:3]:
        noise = np.random.default_rng(ord(row.name)).normal(scale=0.2, size=plan.seeds_of(row))
        measured = {"bleu": [*(MEANS[row.name] + noise)]}
        rows[row.name] = {
            "run": row.name, "scoring": "", "decoding": "", "seeds": [*range(len(noise))],
            "measured": measured,
        }  # fmt: skip
    content = {
        "target": "t", "data": "dates", "size": "tiny", "seeds": plan.seeds, "signatures": {},
        "confidence": plan.confidence,
    }  # fmt: skip
    plan.page_folder.mkdir(exist_ok=True)
    (plan.page_folder / "results.json").write_text(json.dumps(content | {"rows": rows}))
    PLANS.append(plan)


PLANS: list[Plan] = []


def test_only_rows_of_undecided_claims_get_more_seeds(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproducing, "reproduce", score)
    PLANS.clear()
    page = reproducing.decide(make_scored_plan(tmp_path), 1, "command", most_seeds=10)
    assert page == tmp_path / "t,dates,tiny" / "page.md"
    assert [plan.more_seeds for plan in PLANS] == [{}, {"b": 6, "c": 6}, {"b": 10, "c": 10}]
    assert {plan.rounds for plan in PLANS} == {3}
    shown = capsys.readouterr().out
    assert "round 3 of 3, up to 10 seeds: 1 of 2 claims holds, 1 is undecided" in shown
    assert "  undecided     b → c: " in shown and "seeds: 10, needs " in shown
    # Later rounds train only the new seeds, and an ensemble keeps its size.
    last = PLANS[-1]
    untrained = last.untrained()
    assert len(untrained) == 3 + 10 + 10
    assert {seed for name, seed in untrained if name == last.run_name(ROWS[0])} == {0, 1, 2}
    assert "ensemble of 3" in str(last.report_folder(ROWS[3], 0))
    assert len(last.run_folders(ROWS[3], 0)) == 3
    # The ensemble is scored with all three models, and without each of them.
    assert len([*last.rows_to_score()]) == 3 + 10 + 10 + 4
    assert [folder.name for folder in last.run_folders(ROWS[3], 2)] == ["seed0", "seed2"]
    assert len({last.report_folder(ROWS[3], number) for number in range(4)}) == 4


def test_no_seeds_are_added_when_all_claims_are_decided(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproducing, "reproduce", score)
    PLANS.clear()
    reproducing.decide(make_scored_plan(tmp_path, CLAIMS[:1]), 1, "command", most_seeds=10)
    assert len(PLANS) == 1 and "1 of 1 claims holds" in capsys.readouterr().out


def test_the_number_of_seeds_doubles_and_rounds_share_the_error(tmp_path):
    assert schedule(3, 10) == [3, 6, 10] and schedule(5, 5) == [5] and schedule(2, 4) == [2, 4]
    plan = make_scored_plan(tmp_path)
    assert plan.confidence == 0.95 and plan._replace(rounds=5).confidence == pytest.approx(0.99)


def test_looking_in_every_round_keeps_the_error_rate(tmp_path):
    """Without an effect, at most 5 % of all claims are decided in any of three rounds."""
    plan = make_scored_plan(tmp_path, CLAIMS[:1])._replace(rounds=3)
    rng, decided, trials = np.random.default_rng(0), 0, 500
    for _ in range(trials):
        a, b = rng.normal(size=(2, 10))
        found = [
            decide_claims(plan.table, {"confidence": plan.confidence, "rows": {
                "a": {"run": "a", "seeds": [*range(n)], "measured": {"bleu": [*a[:n]]}},
                "b": {"run": "b", "seeds": [*range(n)], "measured": {"bleu": [*b[:n]]}},
            }})[0].outcome
            for n in schedule(3, 10)
        ]  # fmt: skip
        decided += found != ["undecided"] * 3
    assert decided / trials < 0.06


def test_merged_rows_need_more_seeds_of_their_parts():
    table = find_targets()["schuster1997.series"]
    merged, brnn = "merged, separately trained, delays 15 and 10", "brnn"
    (claim,) = [claim for claim in table.claims if claim.better == brnn]
    found = [v for v in decide_claims(table, {"rows": {}}) if v.claim == claim]
    assert open_rows(table, found) == {merged, brnn, "forward, delay 15", "backward, delay 10"}


def test_claims_that_seeds_cannot_decide_are_not_open(tmp_path):
    for worse, better, rows in (
        ("ensemble of c", "ensemble of c", set()),
        ("c", "ensemble of c", set()),
        ("b", "ensemble of c", {"b"}),
    ):
        table = make_scored_plan(tmp_path, (Claim(worse, better, "§1"),)).table
        assert open_rows(table, decide_claims(table, {"rows": {}})) == rows


def test_decide_needs_claims_and_a_possible_number_of_seeds(tmp_path):
    with pytest.raises(UserError, match="t has no claims"):
        check_decidable(make_scored_plan(tmp_path, ()), 10)
    for seeds in 1, 11:
        with pytest.raises(UserError, match=f"--seeds={seeds}, which must be .*--most_seeds=10"):
            check_decidable(make_scored_plan(tmp_path, seeds=seeds), 10)
