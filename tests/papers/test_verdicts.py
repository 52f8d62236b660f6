"""Tests of claims and verdicts on synthetic results with known effects."""

import numpy as np
import pytest

from papers.claims import Claim, best, ranked
from papers.table import Row, Table
from papers.verdicts import CONFIDENCE, count_verdicts, decide_claims, verdict_lines

SPREAD = np.array([-1.0, 0.0, 1.0])  # three seeds with a standard deviation of 1
A_LITTLE = np.array([0.1, 0.12, 0.11])


ROWS = (Row("a"), Row("b"))


def make_table(*claims, rows=ROWS):
    measures = ("bleu", "perplexity")
    return Table("T", "s", "luong2015", measures, rows, ("dates",), 1.0, claims=claims)


def make_content(confidence=CONFIDENCE, **rows):
    """Return the content of a results.json, given the results of rows or (results, run) pairs."""
    found = {}
    for name, values in rows.items():
        values, run = values if isinstance(values, tuple) else (values, name)
        measured = {"bleu": [*values], "perplexity": [*values]}
        found[name] = {"run": run, "seeds": [*range(len(values))], "measured": measured}
    return {"rows": found, "confidence": confidence}


def verdict(claim, content, **table):
    (found,) = decide_claims(make_table(claim, **table), content)
    return found


BETTER = Claim("a", "b", "Table 1")
BY_THREE = Claim("a", "b", "Table 1", margin=3.0)
EQUAL = Claim("a", "b", "§1", margin=3.0, equal=True)


@pytest.mark.parametrize(
    ("claim", "effect", "outcome"),
    [
        # The interval is the effect ± 2.267: t = 2.776 with 4 degrees of freedom, times √(2/3).
        (BETTER, 2.27, "holds"), (BETTER, 2.26, "undecided"), (BETTER, 0.0, "undecided"),
        (BETTER, -2.26, "undecided"), (BETTER, -2.27, "contradicted"),
        (BY_THREE, 5.27, "holds"), (BY_THREE, 5.26, "undecided"), (BY_THREE, 0.72, "contradicted"),
        (EQUAL, 0.0, "holds"), (EQUAL, -0.73, "holds"), (EQUAL, 0.74, "undecided"),
        (EQUAL, -5.26, "undecided"), (EQUAL, -5.27, "contradicted"), (EQUAL, 5.27, "contradicted"),
    ],
)  # fmt: skip
def test_a_verdict_compares_the_interval_with_the_range_of_the_claim(claim, effect, outcome):
    found = verdict(claim, make_content(a=SPREAD, b=SPREAD + effect))
    assert found.outcome == outcome
    assert found.effect == pytest.approx(effect) and found.seeds == (3, 3)
    assert found.interval == pytest.approx((effect - 2.267, effect + 2.267), abs=1e-3)


def test_lower_perplexities_are_better():
    claim = Claim("a", "b", "§1", "perplexity")
    assert verdict(claim, make_content(a=SPREAD + 9, b=SPREAD)).effect == pytest.approx(9)
    assert verdict(claim, make_content(a=SPREAD, b=SPREAD + 9)).outcome == "contradicted"


def test_results_of_the_same_runs_are_paired_by_seed():
    a, b = SPREAD, SPREAD + A_LITTLE
    assert verdict(BETTER, make_content(a=a, b=b)).outcome == "undecided"
    content = make_content(a=(a, "run"), b=(b, "run"))
    assert verdict(BETTER, content).outcome == "holds"
    content["rows"]["a"]["seeds"], content["rows"]["b"]["seeds"] = [0, 1, 2], [0, 1, 3]
    assert verdict(BETTER, content).outcome == "undecided"


def test_a_merged_row_is_paired_with_its_parts():
    rows = (Row("a"), Row("c"), Row("b", merges=("a", "c")))
    content = make_content(a=SPREAD, c=SPREAD, b=(SPREAD + A_LITTLE, None))
    assert verdict(BETTER, content, rows=rows).outcome == "holds"


def test_a_single_result_or_equal_results_give_no_interval():
    for a, b in ([1.0], [5.0, 5.1, 5.2]), ([1.0, 1.0], [5.0, 5.0]):
        found = verdict(BETTER, make_content(a=a, b=b))
        assert (found.outcome, found.interval, found.needed) == ("undecided", None, None)
        assert found.effect == pytest.approx(np.mean(b) - np.mean(a))
    found = verdict(BETTER, make_content(a=[1.0], b=[]))
    assert (found.outcome, found.effect) == ("not measured", None)
    assert verdict(BETTER, {"rows": {}}).outcome == "not measured"


ENSEMBLES = (Row("a"), Row("b", ensemble=True), Row("c", ensemble=True))


def ensemble(content, name, run, whole, left_out):
    """Add the results of an ensemble, and those without each of its models, to results.json."""
    content["rows"][name] = {
        "run": run,
        "seeds": [0],
        "measured": {measure: [whole] for measure in ("bleu", "perplexity")},
        "left_out": {measure: [*left_out] for measure in ("bleu", "perplexity")},
    }


def test_the_jackknife_of_a_mean_is_the_t_test():
    content = make_content(a=SPREAD)
    without = [np.mean(np.delete(SPREAD, i)) + 9 for i in range(3)]
    ensemble(content, "b", "other", np.mean(SPREAD) + 9, without)
    found = verdict(BETTER, content, rows=ENSEMBLES)
    expected = verdict(BETTER, make_content(a=SPREAD, b=SPREAD + 9))
    assert found.interval == pytest.approx(expected.interval) and found.seeds == (3, 3)


def test_an_ensemble_is_paired_with_its_models_and_with_other_ensembles_of_them():
    content = make_content(a=(SPREAD, "run"))
    ensemble(content, "b", "run", 5.0, [4, 5, 6])  # pseudo-values: 15 - 2 · (4, 5, 6)
    expected = make_content(a=(SPREAD, "run"), b=(np.array([7, 5, 3]), "run"))
    found = verdict(BETTER, content, rows=ENSEMBLES)
    assert found.interval == pytest.approx(verdict(BETTER, expected).interval)
    assert found.effect == 5
    ensemble(content, "c", "run", 7.0, [6.1, 7, 8])
    assert verdict(Claim("b", "c", "§1"), content, rows=ENSEMBLES).outcome == "holds"


def test_the_jackknife_works_for_measures_where_lower_is_better():
    claim = Claim("a", "b", "§1", "perplexity")
    content = make_content(a=(SPREAD + 9, "run"))
    ensemble(content, "b", "run", 5.0, [4, 5, 6])
    found = verdict(claim, content, rows=ENSEMBLES)
    expected = make_content(a=(SPREAD + 9, "run"), b=(np.array([7, 5, 3]), "run"))
    assert found.effect == 4
    assert found.interval == pytest.approx(verdict(claim, expected).interval)


def test_an_ensemble_is_compared_only_with_its_own_models():
    content = make_content(a=([*SPREAD, 7.0, 8.0], "run"))
    ensemble(content, "b", "run", 5.0, [4, 5, 6])
    found = verdict(BETTER, content, rows=ENSEMBLES)
    assert (found.effect, found.seeds) == (5, (3, 3))


@pytest.mark.parametrize("left_out", [[], [15.4339, 15.5629]])
def test_an_ensemble_without_left_out_results_or_of_two_models_has_no_interval(left_out):
    content = make_content(a=([15.5629, 15.4339], "run"))
    ensemble(content, "b", "run", 16.9984, left_out)
    found = verdict(BETTER, content, rows=ENSEMBLES)
    assert (found.outcome, found.interval, found.seeds) == ("undecided", None, (2, 1))


def test_an_ensemble_that_was_scored_only_without_its_models_is_not_measured():
    content = make_content(a=(SPREAD, "run"))
    ensemble(content, "b", "run", 5.0, [4, 5, 6])
    content["rows"]["b"]["measured"]["bleu"] = []
    assert verdict(BETTER, content, rows=ENSEMBLES).outcome == "not measured"


def test_results_of_unknown_seeds_are_not_paired():
    content = make_content(a=(SPREAD, "run"), b=(SPREAD + A_LITTLE, "run"))
    assert verdict(BETTER, content).outcome == "holds"
    for row in content["rows"].values():
        row["seeds"] = [0, 1, 2, 3]  # the result of one seed is missing
    assert verdict(BETTER, content).outcome == "undecided"


def test_links_of_another_program_do_not_vary():
    rows = (Row("a", link_files=("x", "y")), Row("b"))
    content = make_content(a=([0.0], None), b=SPREAD + 2.49)  # 4.303 / √3 = 2.484
    assert verdict(BETTER, content, rows=rows).outcome == "holds"


# Sample sizes for a power of 80 % from textbooks (Cohen 1988): 17 per group for a difference of one
# standard deviation, and 64 for half of one; 10 and 34 pairs.
@pytest.mark.parametrize(
    ("effect", "paired", "needed"),
    [(1.0, False, 17), (0.5, False, 64), (-0.5, False, 64), (1.0, True, 10), (0.5, True, 34)],
)
def test_the_number_of_seeds_gives_the_power(effect, paired, needed):
    content = make_content(a=SPREAD, b=SPREAD + effect)
    if paired:
        content = make_content(a=(0 * SPREAD, "run"), b=(SPREAD + effect, "run"))
    assert verdict(BETTER, content).needed == needed


@pytest.mark.parametrize(("claim", "effect"), [(BETTER, 1.2), (EQUAL, 2.0), (EQUAL, -4.2)])
def test_a_simulation_confirms_the_number_of_seeds(claim, effect):
    needed = verdict(claim, make_content(a=SPREAD, b=SPREAD + effect)).needed
    expected = "contradicted" if effect < -3 else "holds"
    rng, decided = np.random.default_rng(0), 0
    for _ in range(1000):
        a, b = rng.normal(size=(2, needed))
        decided += verdict(claim, make_content(a=a, b=b + effect)).outcome == expected
    assert 0.77 < decided / 1000 < 0.86  # the standard error of the fraction is 0.013


def test_few_claims_without_an_effect_are_decided():
    rng, outcomes = np.random.default_rng(1), []
    for _ in range(600):
        a, b = rng.normal(size=(2, 4))
        outcomes.append(verdict(BETTER, make_content(a=a, b=b)).outcome)
    assert outcomes.count("holds") < 0.045 * 600 and outcomes.count("contradicted") < 0.045 * 600


def test_a_higher_confidence_widens_the_interval():
    scores = {"a": SPREAD, "b": SPREAD + 2.5}
    assert verdict(BETTER, make_content(**scores)).outcome == "holds"
    found = verdict(BETTER, make_content(confidence=0.99, **scores))
    assert found.outcome == "undecided" and found.needed == 6


def test_claims_are_made_from_names_of_rows():
    assert ranked("s", "a", "b", "c") == (Claim("a", "b", "s"), Claim("b", "c", "s"))
    assert best("s", "a", "b", "c") == (Claim("b", "a", "s"), Claim("c", "a", "s"))
    assert [str(claim) for claim in (BETTER, BY_THREE, EQUAL)] == [
        "a → b", "a → b (by 3)", "a ≈ b (± 3)",
    ]  # fmt: skip
    for wrong in {"margin": -1.0}, {"equal": True}:
        with pytest.raises(ValueError, match="margin"):
            Claim("a", "b", "s", **wrong)


def test_verdicts_are_counted_and_shown_as_text():
    rows = (Row("a", published={"bleu": 20.0}), Row("b", published={"bleu": 21.5}), Row("c"))
    claims = (BETTER, Claim("b", "a", "§2", "perplexity"), Claim("a", "c", "§3"))
    table = make_table(*claims, rows=rows)
    found = decide_claims(table, make_content(a=SPREAD, b=SPREAD + 1))
    text = "0 of 3 claims hold, 2 are undecided, 1 is not measured"
    assert count_verdicts(found) == text and found[0].published == 1.5
    lines = verdict_lines(found, "  ").splitlines()
    assert lines[0] == "  undecided     a → b: +1.00 [-1.27, +3.27] BLEU, seeds: 3, needs 17"
    assert lines[1].startswith("  undecided     b → a: +1.00 [") and "] perplexity, " in lines[1]
    assert lines[2] == "  not measured  a → c"
    kept = found[0].content()
    assert kept["verdict"] == "undecided" and kept["needed"] == 17 and kept["source"] == "Table 1"
