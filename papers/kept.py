"""Keep results of committed pages, for `reproduce.py --keep`, which trains only the other rows.

A kept row has the results, costs and plots of a page in docs/results.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from errors import UserError
from papers.measures import MEASURES, Report
from papers.plan import KeptRow, Plan, with_decoding
from papers.results import Result
from papers.table import Row
from papers.verdicts import FEWEST_MODELS


def keep_rows(plan: Plan, results: Sequence[Result]) -> Plan:
    """Return the plan with all rows that are up to date on committed pages as kept rows.

    The page of the same table is preferred. Pages of other tables are used for rows that they
    share, if the results of a row depend on nothing but the training of one model.
    """
    found: dict[str, KeptRow] = {}
    for result in sorted(results, key=lambda result: not _same_page(plan, result)):
        if len(found) < len(plan.table.rows):
            found = {row.name: kept for row, kept in _candidates(plan, result)} | found
    for row in plan.table.rows:  # predictions, which are not on pages, are needed to merge rows
        if row.merges and not {row.name, *row.merges} <= found.keys():
            found = {name: kept for name, kept in found.items() if name not in row.merges}
            found.pop(row.name, None)
    if not found:
        raise UserError(
            f"no page in docs/results has results of {plan.name} that are up to date: leave --keep "
            "out"
        )
    return plan._replace(kept=found)


def _same_page(plan: Plan, result: Result) -> bool:
    names = ("target", "data", "size")
    return all(result.content[name] == getattr(plan, name) for name in names)


def _candidates(plan: Plan, result: Result) -> Iterator[tuple[Row, KeptRow]]:
    """Yield rows of the plan with their results on a page."""
    same_page, stale = _same_page(plan, result), result.stale_rows()
    for number, (name, content) in enumerate(result.content["rows"].items()):
        if name in stale or not any(content["measured"].values()):
            continue
        kept = KeptRow(content, result.path.parent, number, same_page)
        if same_page:
            row = plan.table.row(name)
            rows = [row] if _complete(plan, row, kept) else []
        else:
            rows = [row for row in plan.table.rows if _shared(plan, row, result, name, kept)]
        yield from ((row, kept) for row in rows)


def _complete(plan: Plan, row: Row, kept: KeptRow) -> bool:
    """Return whether an ensemble has the wanted models and was scored without each of them."""
    models = len(kept.content["facts"])
    scored = "left_out" in kept.content or models < FEWEST_MODELS
    return not row.ensemble or (models == plan.seeds and scored)


def _shared(plan: Plan, row: Row, result: Result, name: str, kept: KeptRow) -> bool:
    """Return whether the results of the row `name` of another table are those of this row."""
    table, other = plan.table, result.table
    if row.needs_scoring or other.row(name).needs_scoring or table.from_logs != other.from_logs:
        return False
    if kept.content["run"] != plan.run_name(row):
        return False
    if table.faithfulness not in (0, other.faithfulness):
        return False
    [report, *_] = _reports(kept).values()
    return all(MEASURES[measure].of(report) is not None for measure in table.measures)


def kept_reports(plan: Plan, row: Row) -> dict[int, Report]:
    """Return reports with the results of a kept row, by number; see `Plan.rows_to_score`."""
    reports = _reports(plan.kept[row.name])
    config = with_decoding(plan.config(row), row)
    if row.trained and "decode" in config and not plan.table.from_logs:
        averaged = config.train.keep if row.checkpoint == "average" else 1
        for report in reports.values():
            report |= {"decode": {"beam": config.decode.beam}, "checkpoints": [0] * averaged}
    return dict(reports)


def _reports(kept: KeptRow) -> dict[int, dict[str, Any]]:
    content = kept.content
    left_out = content.get("left_out", {})
    numbers = [*content["seeds"], *range(1, 1 + max(map(len, left_out.values()), default=0))]
    reports: dict[int, dict[str, Any]] = {number: {} for number in numbers}
    for name, measured in content["measured"].items():
        values = [*measured, *left_out.get(name, ())]
        for report, value in zip(reports.values(), values, strict=False):
            MEASURES[name].put(report, value)
    if "lengths" in content:
        for report in reports.values():
            report["curves"] = {"source length": content["lengths"]}
    return reports


def kept_p_values(plan: Plan) -> dict[str, str]:
    """Return the p-values of kept rows whose row above is kept from the same page."""
    found = {}
    for row in plan.table.rows:
        pair = [plan.kept.get(r.name) for r in (row, plan.table.above(row)) if r is not None]
        if len(pair) == 2 and all(kept is not None and kept.same_page for kept in pair):
            found[row.name] = plan.kept[row.name].content["p"]
    return {name: p for name, p in found.items() if p is not None}
