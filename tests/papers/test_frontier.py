"""Tests of the comparison at equal budgets: budgets, tuning, Pareto fronts, sentences and plots."""

import dataclasses
import json
from pathlib import Path

import pytest

import reproduce as reproducing
from errors import UserError
from papers import measuring
from papers.frontier import (
    Budget,
    Cost,
    Frontier,
    Setting,
    architecture_name,
    budget_amount,
    budget_steps,
    choose,
    final_plan,
    run_row,
    settings,
    tuning_plan,
)
from papers.frontier_page import draw_panels, make_outcomes, write_frontier_page
from papers.pareto import (
    COST_AXES,
    BudgetResult,
    find_winners,
    make_panel,
    pareto_front,
    quantity,
    summary,
)
from papers.plan import Plan, make_plan
from papers.registry import find_frontiers, find_targets
from papers.table import Row, Table
from sweeping.estimate import Estimate
from tests.papers.test_reproduce import QUICK
from tests.programs import ENVIRONMENT, call

FULL = find_frontiers()["frontier"]
SMALL = Frontier(
    Table(
        title="Two architectures",
        source="nowhere",
        config="luong2015",
        measures=("tokenized_bleu",),
        data=("dates",),
        sizes=("tiny",),
        minutes=1.0,
        rows=(Row("slow"), Row("fast", {"norm": "pre"}, config="vaswani2017")),
    ),
    reference="slow",
    lengths=(0.5, 1.0, 2.0),
    rates=(1.0, 2.0),
    dropouts=(0.1,),
)
# The second architecture has half of the operations per token, and is four times as fast.
COSTS = {
    "slow": Cost(1000, 200, 100, 200.0, 8e9, 0.04, 10.0, "a device"),
    "fast": Cost(500, 999, 50, 400.0, 8e9, 0.0202, 5.0, "a device"),
}
TUNED = {"slow": Setting(0.005, 0.1), "fast": Setting(0.006, 0.1)}


def make_small_plan(folder=Path("results"), frontier=SMALL, seeds=2):
    return make_plan("frontier", frontier.table, "dates", "tiny", folder, seeds, "")


def outcomes(**scores):
    """Return outcomes of both architectures; names are those of an architecture and its steps."""
    found = []
    for key, values in scores.items():
        name, steps = key.split("_")
        found.append(BudgetResult(name, int(steps), values, COSTS[name]))
    return found


def test_budgets_are_those_of_the_reference():
    assert budget_amount(SMALL, COSTS, Budget("tokens", 1)) == 40_000
    assert budget_amount(SMALL, COSTS, Budget("operations", 0)) == pytest.approx(8e11)
    assert budget_amount(SMALL, COSTS, Budget("seconds", 2)) == pytest.approx(16)
    # All budgets of the reference with the same length are the same runs.
    steps = budget_steps(SMALL, COSTS, "slow")
    assert {steps[budget] for budget in SMALL.budgets()} == {100, 200, 400}
    assert all(steps[kind, 2] == 400 for kind in ("tokens", "operations", "seconds"))


def test_steps_of_other_architectures_meet_the_budget_and_share_runs():
    steps = budget_steps(SMALL, COSTS, "fast")
    assert [steps["tokens", level] for level in range(3)] == [50, 100, 200]
    assert [steps["operations", level] for level in range(3)] == [100, 200, 400]
    # 198, 396 and 792 steps would take as long; the first two are close to those of other budgets.
    assert [steps["seconds", level] for level in range(3)] == [200, 400, 792]


def test_tuning_plan_has_the_same_number_of_points_for_all_architectures():
    plan = make_small_plan()
    tuning = tuning_plan(SMALL, plan, COSTS)
    assert tuning.seeds == 1 and len(tuning.runs()) == 4
    assert [architecture_name(row) for row in tuning.table.rows] == ["slow"] * 2 + ["fast"] * 2
    config = tuning.config(tuning.table.rows[-1])
    assert config.train.steps == 100 and config.train.eval_every == 10
    assert config.optimizer.schedule == "cosine" and config.optimizer.warmup_steps == 10
    assert config.optimizer.learning_rate == 0.006 and config.model.dropout == 0.1


def test_final_plan_has_all_budgets_and_reuses_the_tuning_runs():
    plan = make_small_plan()
    final = final_plan(SMALL, plan, COSTS, TUNED)
    assert final.seeds == 2 and len(final.runs()) == 3 + 5
    assert len(set(final.runs()) & set(tuning_plan(SMALL, plan, COSTS).runs())) == 2


def test_the_best_setting_is_chosen():
    scores = {Setting(0.1, 0.3): 20.0, Setting(0.1, 0.5): 22.0, Setting(0.2, 0.3): 22.0}
    assert choose("model", scores) == Setting(0.1, 0.5)
    with pytest.raises(UserError, match="all tuning runs of model failed"):
        choose("model", {})


def test_tuning_scores_are_those_of_the_validation_split(tmp_path, monkeypatch):
    plan = make_small_plan(tmp_path)
    done, row = set(), plan.table.rows[0]
    for setting, score in zip(settings(SMALL, plan, row), (0.5, 0.75), strict=True):
        folder = plan.run_folder(run_row(row, 200, setting), 0)
        folder.mkdir(parents=True)
        lines = [
            {"kind": "valid", "step": step, "time": 1.0, "loss": 1.0, "exact": exact}
            for step, exact in ((20, score), (40, 0.1))
        ]
        (folder / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        done.add(folder)
    monkeypatch.setattr("training.workdir.is_done", lambda folder: folder in done)
    scores = measuring.read_tuning(SMALL, plan, COSTS)
    assert scores == {"slow": {Setting(0.005, 0.1): 0.5, Setting(0.01, 0.1): 0.75}, "fast": {}}


def test_costs_are_measured_once_and_kept(tmp_path, monkeypatch):
    measured = []

    def estimate(base, point, share, timed):
        measured.append(base.file)
        return Estimate(200, 0.04, 10.0, 1000, 100, 200.0, 8e9, "a device")

    monkeypatch.setattr(measuring, "estimate", estimate)
    plan = make_small_plan(tmp_path)
    costs = measuring.measure_costs(plan)
    assert costs["slow"] == COSTS["slow"] and len(measured) == 2
    assert measuring.measure_costs(plan) == costs and len(measured) == 2
    rows = (dataclasses.replace(plan.table.rows[0], changes={"model.dropout": 0.2}),
            *plan.table.rows[1:])  # fmt: skip
    changed = plan._replace(table=dataclasses.replace(plan.table, rows=rows))
    measuring.measure_costs(changed)
    assert len(measured) == 3  # only the architecture whose config has changed


def test_the_pareto_front_leaves_out_surpassed_runs():
    found = outcomes(slow_100=[10.0], slow_200=[20.0], fast_100=[15.0], fast_200=[15.0])
    tokens = [(o.name, o.steps) for o in pareto_front(found, "tokens")]
    assert tokens == [("slow", 100), ("slow", 200)]  # fast_100 has the tokens of slow_200
    seconds = [(o.name, o.steps) for o in pareto_front(found, "seconds")]
    assert seconds == [("fast", 100), ("slow", 200)]
    assert [o.name for o in pareto_front(found, "parameters")] == ["fast", "slow"]


def test_panels_contain_curves_and_the_front(tmp_path):
    found = outcomes(slow_200=[20.0, 22.0], slow_100=[10.0], fast_100=[15.0])
    panel = make_panel(found, "operations")
    assert panel.curves == {
        "slow": [(8e11, 10.0, 0.0), (1.6e12, 21.0, pytest.approx(2**0.5))],
        "fast": [(8e11, 15.0, 0.0)],
    }
    assert panel.front == [(8e11, 15.0), (1.6e12, 21.0)]
    parameters = make_panel(found, "parameters").curves
    assert parameters == {"slow": [(1000, 21.0, pytest.approx(2**0.5))], "fast": [(500, 15.0, 0.0)]}
    path = tmp_path / "plot.png"
    draw_panels({axis: make_panel(found, axis) for axis in COST_AXES}, "BLEU", path)
    assert path.read_bytes().startswith(b"\x89PNG")


RESULTS = outcomes(
    slow_100=[20.0, 20.2], slow_200=[25.0, 25.2], slow_400=[26.0, 26.2],
    fast_50=[10.0, 10.2], fast_100=[20.3, 20.1], fast_200=[30.0, 30.2],
)  # fmt: skip


def test_winners_are_significantly_better_or_share_their_place():
    winners = {winner.budget: winner for winner in find_winners(SMALL, COSTS, RESULTS)}
    first = winners[Budget("tokens", 0)]
    assert first.best.name == "slow" and not first.ties and first.worse[0].name == "fast"
    equal = winners[Budget("operations", 0)]  # 100 steps of both
    assert equal.best.name == "fast" and [o.name for o in equal.ties] == ["slow"]
    assert Budget("seconds", 2) not in winners  # the other architecture has no results
    third = {**COSTS, "third": COSTS["slow"]}
    (winner, *_) = find_winners(SMALL, third, RESULTS)
    assert winner.missing == ["third"] and not winner.clear
    assert summary(SMALL, third, RESULTS)[1].endswith("slow is best with 20.10; no results: third.")


def test_the_summary_names_winners_and_fronts():
    sentences = summary(SMALL, COSTS, RESULTS)
    assert sentences[0] == (
        "Best architecture: fast at 4 of 6 budgets, slow at 2. It is significantly better than "
        "all others at 5 budgets."
    )
    assert (
        "With 20 k tokens each, slow is best with 20.10, significantly better than all others; "
        "second is fast (10.10)." in sentences
    )
    assert (
        "With 800 GFLOP each, fast is best with 20.20; not significantly worse: slow (20.10)."
        in sentences
    )
    start = "Architectures on the Pareto front by "
    assert sentences[-1] == f"{start}parameters: fast (30.10 with 500 parameters)."
    assert sentences[-2] == f"{start}seconds: fast (30.10 with 4.04 s)."
    assert sentences[-4] == (
        f"{start}tokens: slow (25.10 with 40 k tokens), fast (30.10 with 80 k tokens)."
    )
    assert summary(SMALL, COSTS, []) == []


@pytest.mark.parametrize(
    ("axis", "value", "text"),
    [
        ("tokens", 4.1e6, "4.1 M tokens"), ("tokens", 12.0, "12 tokens"),
        ("operations", 3.94e14, "394 TFLOP"), ("operations", 2e21, "2e+03 EFLOP"),
        ("parameters", 19_273_216, "19.3 M parameters"), ("seconds", 720.0, "720 s"),
        ("seconds", 25_500.0, "7 h 05 min"),
    ],
)  # fmt: skip
def test_quantities_have_units(axis, value, text):
    assert quantity(axis, value) == text


def make_reports(plan, found):
    """Return reports of the runs of `found`, as read_reports would."""
    return {
        run_row(plan.table.row(o.name), o.steps, TUNED[o.name]).name: {
            seed: {"scores": {"tokenized_bleu": score}} for seed, score in enumerate(o.scores)
        }
        for o in found
    }


def test_the_page_has_summary_results_costs_and_tuning(tmp_path, monkeypatch):
    plan = make_small_plan(tmp_path)
    tuning = {name: {setting: 22.5} for name, setting in TUNED.items()}
    reports = make_reports(plan, RESULTS)
    assert make_outcomes(SMALL, plan, COSTS, tuning, reports) == RESULTS
    monkeypatch.setattr("papers.frontier_page._run_facts", lambda *_: [])
    text = write_frontier_page(SMALL, plan, COSTS, tuning, reports, "the command").read_text()
    assert "`the command`" in text and "speed measured on a device" in text
    assert "| architecture | 20 k tokens | steps | 800 GFLOP | steps | 4 s | steps |" in text
    assert "| fast | 10.10 ± 0.14 | 50 | 20.20 ± 0.14 | 100 | 30.10 ± 0.14 | 200 |" in text
    assert "| fast | exact | 0.006 | 0.1 | 22.50 | 0.003, 0.1: failed; 0.006, 0.1: 22.50 |" in text
    assert "slow in 1, 2, 4 epochs" in text and "at 2 epochs, with one seed" in text
    assert (plan.page_folder / "frontier.png").exists()
    kept = json.loads((plan.page_folder / "results.json").read_text())
    assert kept["rows"]["fast"]["steps"]["seconds 2"] == 792
    assert kept["rows"]["slow"]["measured"]["200"] == [25.0, 25.2]
    assert kept["summary"] == summary(SMALL, COSTS, RESULTS)


def test_a_dry_run_lists_the_runs_of_both_stages(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproducing, "measure_costs", lambda plan: COSTS)
    reproducing._show_frontier(SMALL, make_small_plan(tmp_path), workers=2)
    shown = capsys.readouterr().out
    assert "slow: 2 tuning runs of 200 steps, then 2 × 100, 200, 400 steps" in shown
    assert "fast: 2 tuning runs of 100 steps, then 2 × 50, 100, 200, 400, 792 steps" in shown
    # 2 × (10 + 200 × 0.04) + 2 × (5 + 100 × 0.0202) seconds with two workers
    assert "tuning: 4 runs of 4 to train, estimated time with --workers=2: 25 s" in shown
    assert "runs of all budgets: 16 runs of 16 to train" in shown


def test_the_frontier_is_a_target_and_its_configs_are_valid():
    assert "frontier" not in find_targets()
    assert "frontier  " in call("reproduce.py", "--list").stdout
    for data in FULL.table.data:
        for size in FULL.table.sizes:
            plan = make_plan("frontier", FULL.table, data, size, Path("results"), 0, "")
            points = {len(set(settings(FULL, plan, row))) for row in plan.table.rows}
            assert points == {len(FULL.rates) * len(FULL.dropouts)}
    with pytest.raises(ValueError, match="there is no row nobody"):
        dataclasses.replace(SMALL, reference="nobody")
    with pytest.raises(ValueError, match="the lengths must increase"):
        dataclasses.replace(SMALL, lengths=(2.0, 1.0))


@pytest.mark.slow
def test_a_frontier_of_two_architectures(tmp_path, monkeypatch):
    """Measure costs, tune, train and score two architectures, and reuse everything afterwards."""
    for name, value in ENVIRONMENT.items():  # reproduce.py passes it to training processes
        monkeypatch.setenv(name, value)
    rows = (
        Row("dot", {"score": "dot"}, decode={"beam": 2}),
        Row("general", {"score": "general"}, decode={"beam": 2}),
    )
    table = dataclasses.replace(SMALL.table, rows=rows)
    frontier = dataclasses.replace(SMALL, table=table, reference="dot", lengths=(1.0,))
    overrides = {**QUICK, "data.cache": str(tmp_path / "prepared")}
    plan = Plan("frontier", table, "dates", "tiny", tmp_path / "results", 1, overrides)
    monkeypatch.setattr("reproduce.measure_costs", lambda plan: measuring.measure_costs(plan, 3))
    page = reproducing.explore(frontier, plan, workers=1, command="python reproduce.py frontier")
    text = page.read_text()
    assert "- Best architecture: " in text and " of 3 budgets" in text and "frontier.png" in text
    kept = json.loads((page.parent / "results.json").read_text())["rows"]
    assert set(kept) == {"dot", "general"} and all(
        row["cost"]["operations"] for row in kept.values()
    )
    assert all(set(row["measured"]) == set(row["runs"]) for row in kept.values())
    files = {path: path.stat().st_mtime_ns for path in plan.folder.rglob("log.jsonl")}
    assert reproducing.explore(frontier, plan, workers=1, command="again") == page
    assert {path: path.stat().st_mtime_ns for path in files} == files
