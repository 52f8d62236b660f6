"""The page of a table: our figures beside the published ones, and whether their order agrees."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from configs.registry import TASKS, resolve
from evaluation.tables import table
from papers.figures import FIGURES, mean_curve
from papers.measures import MEASURES, Measure, Report
from papers.plan import Facts, Plan, facts
from papers.scoring import Reports
from papers.significance import significance, values
from papers.table import Row
from records import to_json


def write_page(plan: Plan, reports: Reports, command: str) -> Path:
    """Write page.md with its pictures, and results.json; return the path of the page."""
    t, p = plan.table, significance(plan, reports)
    costs = {row.name: _facts(plan, reports, row) for row in t.rows}
    plan.page_folder.mkdir(parents=True, exist_ok=True)
    parts = [
        f"# {t.title}", _provenance(plan, command, list(itertools.chain(*costs.values()))),
        published(plan), _table(plan, reports, p, costs), legend(plan, reports, p),
        order(plan, reports), _signatures(plan, reports),
        *(FIGURES[name](plan, reports) for name in t.figures if reports),
    ]  # fmt: skip
    path = plan.page_folder / "page.md"
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", "utf-8")
    content = to_json(_content(plan, reports, p, costs), indent=1)
    (plan.page_folder / "results.json").write_text(content + "\n", "utf-8")
    return path


def _facts(plan: Plan, reports: Reports, row: Row) -> list[Facts]:
    """Return the facts of the runs behind a row's reports."""
    if row.merges:
        return []
    runs = [run for seed in reports.get(row.name, ()) for run in plan.runs_of(row, seed)]
    return [facts(run) for run in runs]


def _provenance(plan: Plan, command: str, costs: Sequence[Facts]) -> str:
    """Return the command, corpus, seeds, commits and devices."""
    size = f", size={plan.size}" if plan.size else ""
    seeds = f"seeds 0 to {plan.seeds - 1}" if plan.seeds > 1 else "seed 0"
    text = f"`{command}`\n\nCorpus {plan.data}{size}, {seeds}"
    commits = sorted({run.commit[:9] + run.commit[40:] or "unknown" for run in costs})
    devices = sorted({run.device for run in costs})
    if commits:
        text += f"; trained at commit {', '.join(commits)} on {', '.join(devices)}"
    return text + "."


def published(plan: Plan) -> str:
    """Return the source of the published figures and the differences of the set-up."""
    return f"Published: {plan.table.source}. {plan.table.differs}".rstrip()


def _table(
    plan: Plan, reports: Reports, p: Mapping[str, str], costs: Mapping[str, Sequence[Facts]]
) -> str:
    printed = {name for row in plan.table.rows for name in row.published}
    measures = [
        (name, MEASURES[name])
        for name in plan.table.measures  # not every corpus has all of them
        if name in printed or any(values(reports, row, MEASURES[name]) for row in plan.table.rows)
    ]
    decodes = any("decode" in r for by_seed in reports.values() for r in by_seed.values())
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
    task = resolve(TASKS[plan.config(plan.table.rows[0]).task].task)
    head += [
        "p",
        "parameters",
        f"{task.counted} seen",
        "minutes",
        *(["decoding"] if decodes else []),
    ]
    return table(head, lines, remarks=int(decodes))


def _cells(ours: list[float], row: Row, name: str) -> list[str]:
    """Return our figure, the published one and their difference."""
    form, paper = MEASURES[name].form, row.published.get(name)
    return [
        mean_and_deviation(ours, form), "–" if paper is None else f"{paper:{form}}",
        "–" if paper is None or not ours else f"{statistics.mean(ours) - paper:+{form}}",
    ]  # fmt: skip


def mean_and_deviation(measured: Sequence[float], form: str) -> str:
    """Format the mean ± standard deviation over seeds; one seed has no deviation."""
    if not measured:
        return "–"
    deviation = f" ± {statistics.stdev(measured):{form}}" if len(measured) > 1 else ""
    return f"{statistics.mean(measured):{form}}{deviation}"


def _cost(row: Row, runs: Sequence[Facts]) -> list[str]:
    """Return parameters, units seen and minutes: means over seeds, or sums for an ensemble."""
    if not runs:
        return ["–", "–", "–"]
    models = len(runs) if row.ensemble else 1
    parameters = f"{runs[0].parameters:,}"
    return [
        f"{models} × {parameters}" if row.ensemble else parameters,
        f"{models * statistics.mean(run.count for run in runs):,.0f}",
        f"{models * statistics.mean(run.seconds for run in runs) / 60:.1f}",
    ]


def _decoding(by_seed: Mapping[int, Report]) -> str:
    for report in by_seed.values():
        decode, steps = report["decode"], report["checkpoints"]
        several = len(steps[0] if isinstance(steps[0], list) else steps)  # lists for an ensemble
        text = f"beam {decode['beam']}" if decode["beam"] > 1 else "greedy"
        return text + (f", mean of {several} checkpoints" if several > 1 else "")
    return "–"


def legend(plan: Plan, reports: Reports, p: Mapping[str, str]) -> str:
    """Explain the columns of the table."""
    fewer = [
        f"{row.name}: {len(reports.get(row.name, {}))}"
        for row in plan.table.rows
        if not row.ensemble and len(reports.get(row.name, {})) < plan.seeds
    ]
    elsewhere = any(row.published for row in plan.table.rows) and not plan.table.same_data
    parts = [
        "Results are on the test split",
        f": mean ± standard deviation over {plan.seeds} seeds" if plan.seeds > 1 else "",
        f" (fewer for {'; '.join(fewer)})" if fewer else "",
        ". Every run is scored with its best checkpoint on the validation split, or with the mean "
        "of several checkpoints where the table says so.",
        _explain_p(plan, p),
        " Minutes are the time of one training run, including compilation and evaluation, while "
        "other workers may share the device; later seeds of a row reuse its compiled programs.",
        _ELSEWHERE if elsewhere else "",
    ]
    return "".join(parts)


def _explain_p(plan: Plan, p: Mapping[str, str]) -> str:
    tested = [value for value in p.values() if value != "–"]
    if not tested:
        return ""
    by_seeds = any("(t)" in value for value in tested)
    test = "Welch's t-test over seeds" if by_seeds else "the paired bootstrap over test examples"
    text = (
        " p is the two-sided p-value of the difference from the row above in the first measure "
        f"(mean over seeds), by {test}."
    )
    return text if by_seeds or plan.seeds == 1 else text + _THESE_RUNS


_THESE_RUNS = (
    " The bootstrap compares these training runs only; the standard deviations show how much other "
    "seeds would differ."
)
_ELSEWHERE = (
    " The published figures are for another corpus and other model sizes: compare the order of the "
    "rows, not the differences."
)


class Comparison(NamedTuple):
    """Two rows of which the paper reports the second as better."""

    worse: str
    better: str
    gain: float  # in our figures; positive if ours agree with the paper
    deviation: float  # standard deviation of the gain over seeds; 0 if it is unknown
    form: str

    @property
    def within(self) -> bool:
        """Whether the gain is within one standard deviation of zero."""
        return abs(self.gain) <= self.deviation

    def __str__(self) -> str:
        deviation = f" ± {self.deviation:{self.form}}" if self.deviation else ""
        within = ", within one standard deviation" if self.within else ""
        return f"{self.worse} → {self.better} ({self.gain:+{self.form}}{deviation}{within})"


def comparisons(plan: Plan, reports: Reports) -> list[Comparison]:
    """Compare the rows of each published figure with those of the next better one.

    The claims of the table follow. Rows with equal published figures are not compared.
    """
    name = plan.table.measures[0]
    measure = MEASURES[name]
    ours = {row.name: values(reports, row, measure) for row in plan.table.rows}
    by_figure: dict[float, list[str]] = {}
    for row in plan.table.rows:
        if name in row.published and ours[row.name]:
            by_figure.setdefault(row.published[name], []).append(row.name)
    figures = sorted(by_figure, reverse=measure.lower_is_better)
    pairs = [
        pair
        for worse, better in itertools.pairwise(figures)
        for pair in itertools.product(by_figure[worse], by_figure[better])
    ]
    pairs += [(a, b) for a, b in plan.table.claims if ours[a] and ours[b]]
    return [_compare(plan, worse, better, ours, measure) for worse, better in pairs]


def _compare(
    plan: Plan, worse: str, better: str, ours: dict[str, list[float]], measure: Measure
) -> Comparison:
    """Compare two rows. A row with one value, such as an ensemble, gets the others' variance."""
    variances = {row: statistics.variance(found) for row, found in ours.items() if len(found) > 1}
    usual = statistics.mean(variances.values()) if variances else 0.0
    low, high = ours[worse], ours[better]
    gain = statistics.mean(high) - statistics.mean(low)
    models = [plan.runs_of(plan.table.row(name), 0) for name in (worse, better)]
    if models[0] == models[1] and len(low) == len(high) > 1:
        deviation = statistics.stdev(b - a for a, b in zip(low, high, strict=True))
    else:
        deviation = math.sqrt(sum(variances.get(row, usual) for row in (worse, better)))
    sign = -1 if measure.lower_is_better else 1
    return Comparison(worse, better, sign * gain, deviation, measure.form)


def order(plan: Plan, reports: Reports) -> str:
    """Describe whether our figures have the published order, comparison by comparison."""
    found = comparisons(plan, reports)
    if not found:
        return "The published figures do not say which of these rows is better." if reports else ""
    agree, differ = [c for c in found if c.gain > 0], [c for c in found if c.gain < 0]
    equal = [c for c in found if c.gain == 0]
    missing = [row.name for row in plan.table.rows if row.name not in reports]
    verdict = _verdict(agree, differ, bool(missing), plan.seeds)
    text = f"**{verdict}** ({MEASURES[plan.table.measures[0]].name}): "
    text += f"{len(agree)} of {len(found)} published comparisons (worse → better) agree. "
    text += f"Agree: {'; '.join(map(str, agree)) or 'none'}. "
    text += f"Disagree: {'; '.join(map(str, differ))}. " if differ else ""
    text += f"Equal: {'; '.join(f'{c.worse}, {c.better}' for c in equal)}. " if equal else ""
    text += f"Missing rows: {'; '.join(missing)}. " if missing else ""
    return text + (_DEVIATION if plan.seeds > 1 else "")


def _verdict(
    agree: Sequence[Comparison], differ: Sequence[Comparison], missing: bool, seeds: int
) -> str:
    if missing:
        return "Some rows have not been measured"
    if seeds == 1:
        return "There is one seed only, so the deviation over seeds is unknown"
    if any(not c.within for c in differ):
        return "The published order does not hold"
    if not agree:
        return "No difference exceeds one standard deviation"
    if differ:
        return "The published order holds, except for differences within one standard deviation"
    if any(c.within for c in agree):
        return "The published order holds, with some differences within one standard deviation"
    return "The published order holds"


_DEVIATION = (
    "(± is the standard deviation of the difference over seeds: the root of the summed variances "
    "of both rows, or, where both rows decode the same models, the standard deviation of the "
    "difference per seed. A row with a single value is assumed to have the mean variance of the "
    "other rows.)"
)


def _signatures(plan: Plan, reports: Reports) -> str:
    """Return the signatures of the measures, one per line."""
    found = {
        (name, text)
        for by_seed in reports.values()
        for report in by_seed.values()
        for name, text in report.get("signatures", {}).items()
        if name in plan.table.measures
    }
    return "".join(f"- {name}: `{text}`\n" for name, text in sorted(found))


def _content(
    plan: Plan, reports: Reports, p: Mapping[str, str], costs: Mapping[str, Sequence[Facts]]
) -> dict:
    """Return the content of results.json."""
    rows = {
        row.name: {
            "run": None if row.merges else plan.run_name(row),
            "published": dict(row.published),
            "ours": {n: values(reports, row, MEASURES[n]) for n in plan.table.measures},
            "p": p.get(row.name),
            "facts": [run._asdict() for run in costs[row.name]],
        }
        | _lengths(plan, reports.get(row.name, {}))
        for row in plan.table.rows
    }
    return {"target": plan.target, "data": plan.data, "size": plan.size, "rows": rows}


def _lengths(plan: Plan, by_seed: Mapping[int, Report]) -> dict:
    """Return a row's BLEU by length if the page draws it."""
    drawn = by_seed and "lengths" in plan.table.figures
    return {"lengths": [part._asdict() for part in mean_curve(by_seed)]} if drawn else {}
