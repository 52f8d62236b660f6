"""Keep the results of a committed page, for `reproduce.py --keep`.

The results, costs and plots of a kept row are those of the page in docs/results. With --decide, new
runs add the results of more seeds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from errors import UserError
from papers.measures import MEASURES, Report
from papers.plan import KeptRow, Plan
from papers.results import Result
from papers.table import Row
from papers.verdicts import CONFIDENCE, FEWEST_MODELS


def keep_rows(plan: Plan, pages: Sequence[Result], seeds: int) -> Plan:
    """Return the plan in which all rows with up-to-date results on its committed page are kept.

    `pages` are all pages of the target. New rows have `seeds` seeds or, if that is 0, as many as
    the page.
    """
    page = _page_of(plan, pages)
    # Several rounds of --decide have widened the intervals of the page.
    rounds = round((1 - CONFIDENCE) / (1 - page.content.get("confidence", CONFIDENCE)))
    plan = plan._replace(seeds=seeds or page.content["seeds"], rounds=rounds)
    stale = page.stale_rows()
    found = {
        name: KeptRow(content, page.path.parent, number)
        for number, (name, content) in enumerate(page.content["rows"].items())
        if name not in stale and _complete(plan, name, content)
    }
    kept = _separable(plan, found)
    if not kept:
        raise UserError(
            f"no row of {page.page} can be kept: each is out of date, or lacks results of the "
            "present table or of a row with which it is compared; leave --keep out"
        )
    counts = {name: len(row.content["seeds"]) for name, row in kept.items()}
    more = {name: count for name, count in counts.items() if count > plan.seeds}
    signatures = page.content["signatures"]
    return plan._replace(kept=kept, kept_signatures=signatures, more_seeds=more)


def _page_of(plan: Plan, pages: Sequence[Result]) -> Result:
    for page in pages:
        if (page.content["data"], page.content["size"]) == (plan.data, plan.size):
            return page
    flags = [f"--data={p.content['data']} --size={p.content['size']}" for p in pages]
    other = f", or choose {' or '.join(flags)}" if flags else ""
    raise UserError(f"docs/results has no page of {plan.name}: leave --keep out{other}")


def _complete(plan: Plan, name: str, content: Mapping[str, Any]) -> bool:
    """Return whether a row on a page has all results of the present table.

    An ensemble must have the wanted number of models, and be scored without each of them.
    """
    measured, models = content["measured"], len(content["facts"])
    if not any(measured.values()) or not set(plan.table.measures) <= measured.keys():
        return False
    scored = "left_out" in content or models < FEWEST_MODELS
    return not plan.table.row(name).ensemble or (models == plan.seeds and scored)


def _separable(plan: Plan, found: Mapping[str, KeptRow]) -> dict[str, KeptRow]:
    """Return the rows that can be kept although other rows are trained.

    Rows of the same runs are kept together, because claims compare such rows seed by seed. So are
    merged rows and their parts, because pages lack the predictions that are merged. For the same
    reason, they must have equal numbers of seeds, to which more can be added.
    """
    kept = dict(found)
    while True:
        trained = plan._replace(kept=kept).runs()
        merged = [row for row in plan.table.rows if row.merges]
        broken = {
            name
            for row in merged
            if not {row.name, *row.merges} <= kept.keys()
            or len({len(kept[name].content["seeds"]) for name in (row.name, *row.merges)}) > 1
            for name in (row.name, *row.merges)
        }
        broken |= {name for name, row in kept.items() if row.content["run"] in trained}
        if not broken & kept.keys():
            return kept
        kept = {name: row for name, row in kept.items() if name not in broken}


def kept_reports(plan: Plan, row: Row) -> dict[int, Report]:
    """Return reports with the results of a kept row, by number; see `Plan.rows_to_score`."""
    content = plan.kept[row.name].content
    left_out = content.get("left_out", {})
    numbers = [*content["seeds"], *range(1, 1 + max(map(len, left_out.values()), default=0))]
    reports: dict[int, dict[str, Any]] = {number: {} for number in numbers}
    for name in plan.table.measures:
        values = [*content["measured"][name], *left_out.get(name, ())]
        for report, value in zip(reports.values(), values, strict=False):
            MEASURES[name].put(report, value)
    if "lengths" in content:
        for report in reports.values():
            report["curves"] = {"source length": content["lengths"]}
    return dict(reports)
