"""A table's page: ours beside the paper's, with the noise, and whether the paper's order holds."""

import itertools
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evaluation.tables import table
from papers.figures import FIGURES
from papers.measures import MEASURES, Measure
from papers.plan import Facts, Plan, facts
from papers.scoring import Reports
from papers.significance import significance, values
from papers.table import Row


def write_page(plan: Plan, reports: Reports, made: str) -> Path:
    """page.md with its pictures, and results.json. `made` says how, by what and where."""
    t = plan.table
    figures = [FIGURES[name](plan, reports) for name in t.figures] if reports else []
    parts = [
        f"# {t.title}", made, f"Published: {t.source}. {t.differs}".rstrip(),
        _table(plan, reports), _legend(plan), order(plan, reports), t.remarks,
        _signatures(reports), *figures,
    ]  # fmt: skip
    path = plan.own / "page.md"
    path.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", "utf-8")
    content = json.dumps(_content(plan, reports), indent=1, ensure_ascii=False)
    (plan.own / "results.json").write_text(content + "\n", "utf-8")
    return path


def _table(plan: Plan, reports: Reports) -> str:
    measures = [(name, MEASURES[name]) for name in plan.table.measures]
    printed = {name for row in plan.table.rows for name in row.published}
    head = ["row"]
    for name, measure in measures:
        head += [measure.name, "paper", "difference"] if name in printed else [measure.name]
    lines = []
    for row in plan.table.rows:
        line = [row.name]
        for name, measure in measures:
            line += _cells(values(reports, row, measure), row, name)[: 3 if name in printed else 1]
        lines.append([*line, significance(plan, reports, row), *_cost(plan, row)])
    return table([*head, "p", "parameters", "seen", "minutes"], lines)


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


def _facts(plan: Plan, row: Row) -> list[Facts]:
    found = () if row.merges else (facts(plan.run(row, seed)) for seed in range(plan.seeds))
    return [own for own in found if own is not None]


def _cost(plan: Plan, row: Row) -> list[str]:
    """Parameters, what was seen and minutes of a run: the means over seeds."""
    known = _facts(plan, row)
    if not known:
        return ["–", "–", "–"]
    return [
        f"{known[0].parameters:,}", f"{statistics.mean(own.count for own in known):,.0f}",
        f"{statistics.mean(own.seconds for own in known) / 60:.1f}",
    ]  # fmt: skip


def _legend(plan: Plan) -> str:
    ensembles = any(row.ensemble for row in plan.table.rows)
    return (
        f"Mean ± standard deviation over {plan.seeds} seeds, test split. p: of the difference to "
        "the row above, by paired bootstrap; (t): by Welch's t-test over seeds. Seen: tokens, or "
        "what else a loss is the mean over, in a training; minutes: of a training with its "
        "compilations and evaluations, beside others on the same device where there were workers."
        + (f" The ensemble is of {plan.seeds} models." if ensembles else "")
    )


class Step(NamedTuple):
    """Two neighbours of the paper's order."""

    worse: str
    better: str
    gain: float  # of ours: positive where the better is better
    noise: float
    form: str

    def __str__(self) -> str:
        within = ", within the noise" if abs(self.gain) <= self.noise else ""
        return f"{self.worse} → {self.better} ({self.gain:+{self.form}}{within})"


def steps(plan: Plan, reports: Reports) -> list[Step]:
    """The order of the published figures, or what the table says the paper claims."""
    name = plan.table.measures[0]
    measure = MEASURES[name]
    ours = {row.name: values(reports, row, measure) for row in plan.table.rows}
    known = [row for row in plan.table.rows if name in row.published and ours[row.name]]
    known.sort(key=lambda row: row.published[name], reverse=measure.lower_is_better)
    pairs = [(a.name, b.name) for a, b in itertools.pairwise(known)]
    pairs += [(a, b) for a, b in plan.table.claims if ours[a] and ours[b]]
    return [_step(worse, better, ours, measure) for worse, better in pairs]


def _step(worse: str, better: str, ours: dict[str, list[float]], measure: Measure) -> Step:
    gain = statistics.mean(ours[better]) - statistics.mean(ours[worse])
    spread = [statistics.stdev(own) for own in (ours[worse], ours[better]) if len(own) > 1]
    gain = -gain if measure.lower_is_better else gain
    return Step(worse, better, gain, math.hypot(*spread), measure.form)


def order(plan: Plan, reports: Reports) -> str:
    """Which steps of the paper's order are steps up here too."""
    found = steps(plan, reports)
    if not found:
        return ""
    measure = MEASURES[plan.table.measures[0]]
    holds = [step for step in found if step.gain > 0]
    broken = [step for step in found if step.gain <= 0]
    whole = "The paper's ordering holds" if not broken else "The paper's ordering does not hold"
    text = f"**{whole}** by {measure.name}: {len(holds)} of {len(found)} steps, worse → better"
    text += f", are gains here. Gains: {'; '.join(map(str, holds)) or 'none'}."
    text += f" Losses: {'; '.join(map(str, broken))}." if broken else ""
    missing = [row.name for row in plan.table.rows if row.name not in reports]
    return text + (f" Not measured: {'; '.join(missing)}." if missing else "")


def _signatures(reports: Reports) -> str:
    found = {
        (name, text)
        for own in reports.values()
        for report in own.values()
        for name, text in report.get("signatures", {}).items()
        if name in ("bleu", "tokenised_bleu", "loss")
    }
    return "".join(f"- {name}: `{text}`\n" for name, text in sorted(found))


def _content(plan: Plan, reports: Reports) -> dict:
    """The same figures for a program."""
    return {
        row.name: {
            "run": None if row.merges else plan.run_name(row),
            "published": dict(row.published),
            "ours": {n: values(reports, row, MEASURES[n]) for n in plan.table.measures},
            "p": significance(plan, reports, row),
            "facts": [own._asdict() for own in _facts(plan, row)],
        }
        for row in plan.table.rows
    }
