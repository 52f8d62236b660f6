"""A table's page: ours beside the paper's, with the noise, and whether the paper's order holds."""

import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.tables import table
from papers.figures import FIGURES, mean_curve
from papers.measures import MEASURES, Measure, Report
from papers.plan import Facts, Plan, facts
from papers.scoring import Reports
from papers.significance import significance, values
from papers.table import Row
from tasks.registry import TASKS


def write_page(plan: Plan, reports: Reports, command: str) -> Path:
    """page.md with its pictures, and results.json."""
    t, p = plan.table, significance(plan, reports)
    costs = {row.name: _facts(plan, reports, row) for row in t.rows}
    plan.own.mkdir(parents=True, exist_ok=True)
    parts = [
        f"# {t.title}", _made(plan, command, [own for some in costs.values() for own in some]),
        f"Published: {t.source}. {t.differs}".rstrip(),
        _table(plan, reports, p, costs), _legend(plan, reports, p), order(plan, reports),
        _remarks(plan, reports), _signatures(plan, reports),
        *(FIGURES[name](plan, reports) for name in t.figures if reports),
    ]  # fmt: skip
    path = plan.own / "page.md"
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", "utf-8")
    content = json.dumps(_content(plan, reports, p, costs), indent=1, ensure_ascii=False)
    (plan.own / "results.json").write_text(content + "\n", "utf-8")
    return path


def _facts(plan: Plan, reports: Reports, row: Row) -> list[Facts]:
    """Of the runs behind a row's reports."""
    if row.merges:
        return []
    runs = [run for seed in reports.get(row.name, ()) for run in plan.runs_of(row, seed)]
    return [facts(run) for run in runs]


def _made(plan: Plan, command: str, costs: Sequence[Facts]) -> str:
    """How, and by what: as the runs tell it themselves."""
    size = f", size={plan.size}" if plan.size else ""
    seeds = f"seeds 0 to {plan.seeds - 1}" if plan.seeds > 1 else "seed 0"
    text = f"`{command}`\n\nCorpus {plan.data}{size}, {seeds}"
    commits = sorted({own.commit[:9] + own.commit[40:] or "unknown" for own in costs})
    devices = sorted({own.device for own in costs})
    if commits:
        text += f"; trained at commit {', '.join(commits)} on {', '.join(devices)}"
    return text + "."


def _table(
    plan: Plan, reports: Reports, p: Mapping[str, str], costs: Mapping[str, Sequence[Facts]]
) -> str:
    printed = {name for row in plan.table.rows for name in row.published}
    measures = [
        (name, MEASURES[name])
        for name in plan.table.measures  # of which some corpora have not all
        if name in printed or any(values(reports, row, MEASURES[name]) for row in plan.table.rows)
    ]
    decodes = any("decode" in report for own in reports.values() for report in own.values())
    head = ["row"]
    for name, measure in measures:
        head += [measure.name, "paper", "difference"] if name in printed else [measure.name]
    lines = []
    for row in plan.table.rows:
        line = [row.name]
        for name, measure in measures:
            line += _cells(values(reports, row, measure), row, name)[: 3 if name in printed else 1]
        line += [p.get(row.name, "–"), *_cost(row, costs[row.name])]
        lines.append([*line, *([_decoding(reports.get(row.name, {}))] if decodes else [])])
    counted = TASKS[plan.config(plan.table.rows[0]).task].counted
    head += ["p", "parameters", f"{counted} seen", "minutes", *(["decoding"] if decodes else [])]
    return table(head, lines, remarks=int(decodes))


def _cells(ours: list[float], row: Row, name: str) -> list[str]:
    """Ours, the paper's and the difference."""
    form, paper = MEASURES[name].form, row.published.get(name)
    return [
        show(ours, form), "–" if paper is None else f"{paper:{form}}",
        "–" if paper is None or not ours else f"{statistics.mean(ours) - paper:+{form}}",
    ]  # fmt: skip


def show(measured: Sequence[float], form: str) -> str:
    """Mean ± standard deviation over seeds."""
    if not measured:
        return "–"
    noise = f" ± {statistics.stdev(measured):{form}}" if len(measured) > 1 else ""
    return f"{statistics.mean(measured):{form}}{noise}"


def _cost(row: Row, known: Sequence[Facts]) -> list[str]:
    """Parameters, and what a run saw in how many minutes: means over seeds; an ensemble's are of
    all its models."""
    if not known:
        return ["–", "–", "–"]
    models = len(known) if row.ensemble else 1
    parameters = f"{known[0].parameters:,}"
    return [
        f"{models} × {parameters}" if row.ensemble else parameters,
        f"{models * statistics.mean(own.count for own in known):,.0f}",
        f"{models * statistics.mean(own.seconds for own in known) / 60:.1f}",
    ]


def _decoding(own: Mapping[int, Report]) -> str:
    for report in own.values():
        decode, steps = report["decode"], report["checkpoints"]
        several = len(steps[0] if isinstance(steps[0], list) else steps)  # an ensemble's are lists
        text = f"beam {decode['beam']}" if decode["beam"] > 1 else "greedy"
        return text + (f", mean of {several} checkpoints" if several > 1 else "")
    return "–"


def _legend(plan: Plan, reports: Reports, p: Mapping[str, str]) -> str:
    fewer = [
        f"{row.name}: {len(reports.get(row.name, {}))}"
        for row in plan.table.rows
        if not row.ensemble and len(reports.get(row.name, {})) < plan.seeds
    ]
    tested = [own for own in p.values() if own != "–"]
    by_seeds = any("(t)" in own for own in tested)
    test = "Welch's t-test over seeds" if by_seeds else "paired bootstrap over examples"
    elsewhere = any(row.published for row in plan.table.rows) and not plan.table.same_data
    parts = [
        "Test split",
        f"; mean ± standard deviation over {plan.seeds} seeds" if plan.seeds > 1 else "",
        f" (but {'; '.join(fewer)})" if fewer else "",
        ", of the checkpoint that the validation split likes best, or of a mean of several.",
        " p: of the difference to the row above in the first measure, of the seeds' mean, "
        f"two-sided, by {test}"
        f"{'.' if by_seeds or plan.seeds == 1 else _THESE}"
        if tested
        else "",
        " Minutes: of a training with its compilations and evaluations, beside others on "
        "its device where there were several workers; later seeds find a row's programs compiled.",
        _ELSEWHERE if elsewhere else "",
    ]
    return "".join(parts)


_THESE = ": of these very trainings. How far others would be from them, the deviations say."
_ELSEWHERE = (
    " The paper's figures are of another corpus and other sizes: what can be compared is the order "
    "of the rows, not the difference."
)


class Step(NamedTuple):
    """Two rows, of which the paper has the second before the first."""

    worse: str
    better: str
    gain: float  # of ours: positive where the better is better
    noise: float
    form: str

    @property
    def within(self) -> bool:
        return abs(self.gain) <= self.noise

    def __str__(self) -> str:
        within = ", within the noise" if self.within else ""
        return f"{self.worse} → {self.better} ({self.gain:+{self.form}}{within})"


def steps(plan: Plan, reports: Reports) -> list[Step]:
    """From each published figure to the next better one, and what the table says the paper claims;
    equals have no order."""
    name = plan.table.measures[0]
    measure = MEASURES[name]
    ours = {row.name: values(reports, row, measure) for row in plan.table.rows}
    equals: dict[float, list[str]] = {}
    for row in plan.table.rows:
        if name in row.published and ours[row.name]:
            equals.setdefault(row.published[name], []).append(row.name)
    figures = sorted(equals, reverse=measure.lower_is_better)
    pairs = [
        pair
        for worse, better in itertools.pairwise(figures)
        for pair in itertools.product(equals[worse], equals[better])
    ]
    pairs += [(a, b) for a, b in plan.table.claims if ours[a] and ours[b]]
    return [_step(plan, worse, better, ours, measure) for worse, better in pairs]


def _step(
    plan: Plan, worse: str, better: str, ours: dict[str, list[float]], measure: Measure
) -> Step:
    """A row of one value, an ensemble's say, is taken to vary as the others do."""
    variances = {row: statistics.variance(own) for row, own in ours.items() if len(own) > 1}
    usual = statistics.mean(variances.values()) if variances else 0.0
    low, high = ours[worse], ours[better]
    gain = statistics.mean(high) - statistics.mean(low)
    models = [plan.runs_of(plan.table.row(name), 0) for name in (worse, better)]
    if models[0] == models[1] and len(low) == len(high) > 1:
        noise = statistics.stdev(b - a for a, b in zip(low, high, strict=True))
    else:
        noise = math.sqrt(sum(variances.get(row, usual) for row in (worse, better)))
    return Step(worse, better, -gain if measure.lower_is_better else gain, noise, measure.form)


def order(plan: Plan, reports: Reports) -> str:
    """Whether the paper's order holds, step by step."""
    found = steps(plan, reports)
    if not found:
        return "Nothing that was published says which row is the better." if reports else ""
    holds, broken = [s for s in found if s.gain > 0], [s for s in found if s.gain < 0]
    equal = [s for s in found if s.gain == 0]
    missing = [row.name for row in plan.table.rows if row.name not in reports]
    if missing:
        verdict = "Not all rows are measured"
    elif plan.seeds == 1:
        verdict = "One seed, whose noise is not known"
    elif any(not step.within for step in broken):
        verdict = "The published order does not hold"
    elif not holds:
        verdict = "Nothing of the published order is seen, nor its contrary, but noise"
    elif broken:
        verdict = "The published order holds but for what is within the noise"
    elif any(step.within for step in holds):
        verdict = "The published order holds, in part within the noise"
    else:
        verdict = "The published order holds"
    text = f"**{verdict}**, by {MEASURES[plan.table.measures[0]].name}: "
    text += f"{len(holds)} of {len(found)} steps, worse → better, are gains here. "
    text += f"Gains: {'; '.join(map(str, holds)) or 'none'}. "
    text += f"Losses: {'; '.join(map(str, broken))}. " if broken else ""
    text += f"Equal: {'; '.join(f'{s.worse}, {s.better}' for s in equal)}. " if equal else ""
    text += f"Missing: {'; '.join(missing)}. " if missing else ""
    return (
        text
        if plan.seeds == 1
        else text + "(The noise is the root of both rows' summed variances over seeds, or the "
        "deviation of the gain where the same models were decoded in two ways. A row of one value "
        "is taken to vary as the others do.)"
    )


def _remarks(plan: Plan, reports: Reports) -> str:
    """Which were written about the runs in docs/results: of all rows, in the table's own size."""
    same = plan.size == plan.table.sizes[0] and len(reports) == len(plan.table.rows)
    remark = plan.table.remarks.get(plan.data, "") if same else ""
    return f"**Of the runs in docs/results**: {remark}" if remark else ""


def _signatures(plan: Plan, reports: Reports) -> str:
    """How the measures are computed, where scores tell it."""
    found = {
        (name, text)
        for own in reports.values()
        for report in own.values()
        for name, text in report.get("signatures", {}).items()
        if name in plan.table.measures
    }
    return "".join(f"- {name}: `{text}`\n" for name, text in sorted(found))


def _content(
    plan: Plan, reports: Reports, p: Mapping[str, str], costs: Mapping[str, Sequence[Facts]]
) -> dict:
    """The same for a program."""
    rows = {
        row.name: {
            "run": None if row.merges else plan.run_name(row),
            "published": dict(row.published),
            "ours": {n: values(reports, row, MEASURES[n]) for n in plan.table.measures},
            "p": p.get(row.name),
            "facts": [own._asdict() for own in costs[row.name]],
        }
        | _lengths(plan, reports.get(row.name, {}))
        for row in plan.table.rows
    }
    return {"target": plan.target, "data": plan.data, "size": plan.size, "rows": rows}


def _lengths(plan: Plan, own: Mapping[int, Report]) -> dict:
    """The curve of a row, where the page draws it."""
    drawn = own and "lengths" in plan.table.figures
    return {"lengths": [part._asdict() for part in mean_curve(own)]} if drawn else {}
