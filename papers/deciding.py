"""Decide which rows of a table need more seeds, for `reproduce.py --decide`."""

from collections.abc import Sequence

from errors import UserError
from papers.plan import Plan
from papers.results import read_result
from papers.table import Row, Table
from papers.verdicts import Verdict


def check_decidable(plan: Plan, most_seeds: int) -> None:
    """Raise a UserError if a table has no claims, or if the numbers of seeds cannot decide them."""
    if not plan.table.claims:
        raise UserError(f"{plan.target} has no claims: leave --decide out")
    if not 2 <= plan.seeds <= most_seeds:
        raise UserError(
            f"--decide starts with --seeds={plan.seeds}, which must be at least 2 and at most "
            f"--most_seeds={most_seeds}: change one of them"
        )


def schedule(seeds: int, most_seeds: int) -> list[int]:
    """Return the number of seeds in every round: it doubles from `seeds` up to `most_seeds`."""
    found = [seeds]
    while found[-1] < most_seeds:
        found.append(min(2 * found[-1], most_seeds))
    return found


def read_verdicts(plan: Plan) -> list[Verdict]:
    """Return the verdicts on the page of a table, which must exist."""
    result = read_result(plan.page_folder / "results.json", {plan.target: plan.table})
    assert result is not None
    return result.verdicts()


def open_rows(table: Table, verdicts: Sequence[Verdict]) -> set[str]:
    """Return the names of the rows for which more seeds could decide a claim.

    Ensembles keep their number of models, and the links of other programs do not vary. More seeds
    of an ensemble's models do not decide a claim that compares it with them. A row that merges
    predictions needs more seeds of the merged rows.
    """
    claims = [v.claim for v in verdicts if v.outcome in ("undecided", "not measured")]
    pairs = [(table.row(claim.worse), table.row(claim.better)) for claim in claims]
    rows = [row for pair in pairs if not _ensemble_of_models(*pair) for row in pair]
    varying = [row for row in rows if not row.ensemble and not row.link_files]
    return {name for row in varying for name in (row.name, *row.merges)}


def _ensemble_of_models(worse: Row, better: Row) -> bool:
    """Return whether one row is an ensemble of the models of the other."""
    models = [(row.config, row.arguments, row.changes, row.reversed) for row in (worse, better)]
    return models[0] == models[1] and (worse.ensemble or better.ensemble)
