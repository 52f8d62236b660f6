"""Write the page of a results table, which compares measured and published results."""

import itertools
import shlex
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from configs.registry import TASKS, resolve
from markup import code, escape, table
from papers.figures import FIGURES, mean_curve
from papers.measures import MEASURES, Report
from papers.plan import Plan
from papers.scoring import Reports, read_left_out
from papers.significance import significance, values
from papers.table import Row
from papers.verdicts import (
    CONFIDENCE,
    POWER,
    Verdict,
    claims_table,
    count_verdicts,
    decide_claims,
)
from training.records import Facts, facts
from writing import write_json, write_text

_MOST_COMPARED = 20  # a command that names more models than this is too long to be useful


def write_page(plan: Plan, reports: Reports, command: str) -> Path:
    """Write page.md, its plots and results.json; return the path of page.md."""
    # Tables without scored runs have several rows per model, which are not compared one by one.
    t, p = plan.table, {} if plan.table.from_logs else significance(plan, reports)
    p = p if any(value != "–" for value in p.values()) else {}
    costs = {row.name: _facts(plan, reports, row) for row in t.rows}
    content = _content(plan, reports, p, costs)
    plan.page_folder.mkdir(parents=True, exist_ok=True)
    parts = [
        f"# {escape(t.title)}",
        _provenance(plan, reports, command, list(itertools.chain(*costs.values()))),
        published(plan), _table(plan, reports, p, costs),
        claims_section(plan, decide_claims(plan.table, content)), legend(plan, reports, p),
        _list_signatures(content["signatures"]), _compare_command(plan, reports),
        *(FIGURES[name](plan, reports) for name in t.figures if reports),
    ]  # fmt: skip
    path = plan.page_folder / "page.md"
    write_text(path, "\n\n".join(part.strip() for part in parts if part) + "\n")
    write_json(plan.page_folder / "results.json", content, indent=1)
    return path


def _facts(plan: Plan, reports: Reports, row: Row) -> list[Facts]:
    """Return the facts (such as parameters and training time) of all training runs of a row.

    The runs of the reverse direction, if the row needs them, are the last ones.
    """
    kept = plan.kept[row.name].content["facts"] if row.name in plan.kept else []
    found = [Facts(**run) for run in kept]
    if not row.trained or plan.is_kept(row):
        return found
    seeds = [seed for seed in reports.get(row.name, ()) if seed >= plan.kept_seeds(row)]
    forward = [run for seed in seeds for run in plan.run_folders(row, seed)]
    reverse = [run for seed in seeds for run in plan.reverse_folders(row, seed)]
    return found + [facts(run) for run in forward + reverse]


def _seed_counts(plan: Plan, reports: Reports) -> dict[str, int]:
    """Return the number of seeds of every row whose results vary with the seed."""
    rows = [row for row in plan.table.rows if not (row.ensemble or row.link_files)]
    return {row.name: len(reports.get(row.name, {})) for row in rows}


def _provenance(plan: Plan, reports: Reports, command: str, costs: Sequence[Facts]) -> str:
    """Describe how the results were obtained: command, corpus, seeds, commits and devices."""
    size = f", size={plan.size}" if plan.size else ""
    counts = [count for count in _seed_counts(plan, reports).values() if count] or [plan.seeds]
    usual, most = statistics.mode(counts), max(counts)
    seeds = f"seeds 0 to {usual - 1}" if usual > 1 else "seed 0"
    seeds += f" (0 to {most - 1} for some rows)" if most > usual else ""
    text = f"{code(command)}\n\nCorpus {escape(plan.data + size)}, {seeds}"
    commits = sorted({run.commit[:9] + run.commit[40:] or "unknown" for run in costs})
    devices = sorted({run.device for run in costs})
    if commits:
        *others, last = map(escape, commits)
        named = f"commits {', '.join(others)} and {last}" if others else f"commit {last}"
        text += f"; trained at {named} on {escape(', '.join(devices))}"
        text += ' ("+": with uncommitted changes)' if "+" in named else ""
    new = "; ".join(escape(row.name) for row in plan.table.rows if row.name not in plan.kept)
    if plan.kept:
        rows = f"all rows except {new}" if new else "all rows"
        text += f". Kept from an earlier version of this page: {rows}"
        grown = [row for row in plan.table.rows if row.name in plan.kept and not plan.is_kept(row)]
        if grown:
            seeds = "; ".join(f"{escape(r.name)}: 0 to {plan.kept_seeds(r) - 1}" for r in grown)
            text += f"; more seeds were trained for these rows (kept seeds: {seeds})"
    return text + "."


def published(plan: Plan) -> str:
    """Describe the source of the published results and how the experimental setup differs."""
    return f"Published: {plan.table.source}. {plan.table.differs}".rstrip()


def _table(
    plan: Plan, reports: Reports, p: Mapping[str, str], costs: Mapping[str, Sequence[Facts]]
) -> str:
    printed = {name for row in plan.table.rows for name in row.published}
    measures = [
        (name, MEASURES[name])
        for name in plan.table.measures  # leave out measures without any results
        if name in printed or any(values(reports, row, MEASURES[name]) for row in plan.table.rows)
    ]
    decoding = {row.name: _decoding(plan, reports, row) for row in plan.table.rows}
    decodes = any(decoding.values())
    head = ["row"]
    for name, measure in measures:
        head += [measure.name, "published", "difference"] if name in printed else [measure.name]
    lines = []
    for row in plan.table.rows:
        line = [row.name]
        for name, measure in measures:
            line += _cells(values(reports, row, measure), row, name)[: 3 if name in printed else 1]
        line += [*([p.get(row.name, "–")] if p else []), *_cost(row, costs[row.name])]
        lines.append([*line, *([decoding[row.name] or "–"] if decodes else [])])
    head += [
        *(["p"] if p else []),
        "parameters",
        f"training {_loss_unit(plan)}",
        "minutes",
        *(["decoding"] if decodes else []),
    ]
    return table(head, lines, remarks=int(decodes))


def _loss_unit(plan: Plan) -> str:
    """Return the plural name of the units that the loss is averaged over, such as "tokens"."""
    return resolve(TASKS[plan.config(plan.table.rows[0]).task].task).loss_unit


def _cells(measured: list[float], row: Row, name: str) -> list[str]:
    """Return measured result, published result and their difference for measure `name`, as text."""
    form, figure = MEASURES[name].form, row.published.get(name)
    return [
        mean_and_deviation(measured, form), "–" if figure is None else f"{figure:{form}}",
        "–"
        if figure is None or not measured
        else f"{statistics.mean(measured) - figure:+z{form.lstrip('z')}}",
    ]  # fmt: skip


def mean_and_deviation(measured: Sequence[float], form: str) -> str:
    """Format mean ± standard deviation over seeds, or the value itself if there is only one."""
    if not measured:
        return "–"
    deviation = f" ± {statistics.stdev(measured):{form}}" if len(measured) > 1 else ""
    return f"{statistics.mean(measured):{form}}{deviation}"


def _cost(row: Row, runs: Sequence[Facts]) -> list[str]:
    """Return the number of parameters, the number of training tokens and the training minutes.

    Tokens and minutes are means over seeds. For an ensemble, they are sums over its models, and a
    row of both directions has two models. Tasks without tokens use another unit, such as texts.
    """
    if not runs:
        return ["–", "–", "–"]
    models = len(runs) if row.ensemble else 2 if row.reverse else 1
    parameters = f"{runs[0].parameters:,}"
    return [
        f"{models} × {parameters}" if row.ensemble or row.reverse else parameters,
        f"{models * statistics.mean(run.count for run in runs):,.0f}",
        f"{models * statistics.mean(run.seconds for run in runs) / 60:.1f}",
    ]


def _decoding(plan: Plan, reports: Reports, row: Row) -> str:
    """Describe the decode settings of a row, which are the same for all seeds; "" if none."""
    if row.name in plan.kept:
        return plan.kept[row.name].content["decoding"]
    for report in reports.get(row.name, {}).values():
        if not row.trained or "decode" not in report:
            break
        decode, steps = report["decode"], report["checkpoints"]
        # Count the averaged checkpoints; for an ensemble, `steps` has one list of them per model.
        several = len(steps[0] if isinstance(steps[0], list) else steps)
        text = f"beam {decode['beam']}" if decode["beam"] > 1 else "greedy"
        text += f", mean of {several} checkpoints" if several > 1 else ""
        return text + (", last checkpoint" if row.checkpoint == "last" else "")
    return ""


def legend(plan: Plan, reports: Reports, p: Mapping[str, str]) -> str:
    """Return the paragraph that explains the columns of the results table."""
    counts = _seed_counts(plan, reports)
    usual = statistics.mode(counts.values()) if counts else plan.seeds
    others = [f"{escape(name)}: {seeds}" for name, seeds in counts.items() if seeds != usual]
    other_data = any(row.published for row in plan.table.rows) and not plan.table.same_data
    parts = [
        f"Results are on the {'validation' if plan.table.from_logs else 'test'} split",
        f": mean ± standard deviation over {usual} seeds" if usual > 1 else "",
        f" (other numbers of seeds: {'; '.join(others)})" if others else "",
        _LOGGED if plan.table.from_logs else _SCORED,
        _explain_p(plan, p),
        f" Training {_loss_unit(plan)} are summed over all training steps.",
        " Minutes are the duration of one training run, including compilation and evaluation; "
        "other runs may have shared the device. Later seeds of a row reuse its compiled programs.",
        _OTHER_DATA if other_data else "",
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


_SCORED = (
    ". Every run is scored with the checkpoint that is best on the validation split, or with the "
    "last one or the mean of several where the table says so."
)
_LOGGED = (
    ". For each run, all measures are from the evaluation with the best value of the first "
    "measure. Hypotheses are greedy."
)
_THESE_RUNS = (
    " The bootstrap compares these training runs only; the standard deviations show how much other "
    "seeds would differ."
)
_OTHER_DATA = (
    " The published results are for another corpus and other model sizes: compare the order of the "
    "rows, not the differences."
)


def claims_section(plan: Plan, verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts on the paper's claims: their number, a table and an explanation."""
    if not verdicts:
        return "No claim of this table compares two rows, so there are no verdicts."
    table = claims_table(verdicts, plan.confidence)
    explained = _VERDICTS
    if any(verdict.claim.equal for verdict in verdicts):
        explained += _EQUAL
    rows = [plan.table.row(row) for v in verdicts for row in (v.claim.worse, v.claim.better)]
    if any(row.ensemble for row in rows):
        explained += _ENSEMBLES
    if plan.rounds > 1:
        explained += _SEVERAL_ROUNDS.format(plan.rounds)
    return f"**{count_verdicts(verdicts)}.**\n\n{table}\n{explained}"


_VERDICTS = (
    "A claim holds if the whole confidence interval of the difference over seeds lies above 0, or "
    "above the margin that the claim states. It is contradicted if the whole interval lies below "
    "that limit, and otherwise undecided. Positive differences agree with the paper. Intervals are "
    'those of Welch\'s t-test, or of the paired t-test if both rows use the same runs. "Needs" is '
    f"the number of seeds per row that would decide a claim with a probability of {100 * POWER:.0f}"
    " %, if difference and standard deviations are as measured."
)
_EQUAL = (
    " A claim that two rows are equal (≈) holds if the whole interval lies within the margin, and "
    "is contradicted if the whole interval lies outside it."
)
_ENSEMBLES = (
    " Intervals of ensembles are estimated by the jackknife, from the results without each model; "
    "if these were not measured, the claim is undecided, and the number of models is given as 1."
)
_SEVERAL_ROUNDS = (
    " The claims may be decided in {} rounds, with more seeds in each; the intervals of all rounds "
    f"together have a confidence of {100 * CONFIDENCE:.0f} %."
)


def _signatures(plan: Plan, reports: Reports) -> dict[str, list[str]]:
    """Map measures to their sacreBLEU signatures; there are several if versions differ."""
    found: dict[str, set[str]] = {name: set() for name in plan.table.measures}
    for report in (report for by_seed in reports.values() for report in by_seed.values()):
        for name, text in report.get("signatures", {}).items():
            found.get(name, set()).add(text)
    for name, texts in plan.kept_signatures.items():
        found.get(name, set()).update(texts)
    return {name: sorted(texts) for name, texts in sorted(found.items()) if texts}


def _list_signatures(signatures: Mapping[str, Sequence[str]]) -> str:
    """Return the signatures of measures as a Markdown list."""
    return "".join(
        f"- {MEASURES[name].name}: {code(text)}\n"
        for name, texts in signatures.items()
        for text in texts
    )


def _compare_command(plan: Plan, reports: Reports) -> str:
    """Name the command that compares the runs of the table with compare.py."""
    rows = [
        row for row in plan.table.rows if row.trained and row.name in reports.keys() - plan.kept
    ]
    names = dict.fromkeys(plan.run_name(row) for row in rows)
    if not 2 <= len(names) <= _MOST_COMPARED:
        return ""
    runs = ",".join(f"{plan.folder}/runs/{name}/seed*" for name in names)
    command = f"python compare.py {shlex.quote(f'--runs={runs}')}"
    what = "configs, learning curves and predictions after training these runs"
    return f"To compare {what}: {code(command)}"


def _content(
    plan: Plan, reports: Reports, p: Mapping[str, str], costs: Mapping[str, Sequence[Facts]]
) -> dict:
    """Return the content of results.json."""
    left_out = read_left_out(plan)
    rows = {
        row.name: {
            "run": plan.run_name(row) if row.trained else None,
            "scoring": plan.scoring(row),
            "decoding": _decoding(plan, reports, row),
            "seeds": [*reports.get(row.name, {})],
            "published": dict(row.published),
            "measured": {n: values(reports, row, MEASURES[n]) for n in plan.table.measures},
            "p": p.get(row.name),
            "facts": [run._asdict() for run in costs[row.name]],
        }
        | _left_out(plan, left_out, row)
        | _lengths(plan, reports.get(row.name, {}))
        for row in plan.table.rows
    }
    content = {
        "target": plan.target,
        "data": plan.data,
        "size": plan.size,
        "seeds": plan.seeds,
        "confidence": plan.confidence,
        "signatures": _signatures(plan, reports),
        "rows": rows,
    }
    verdicts = decide_claims(plan.table, content)
    return content | {"claims": [verdict.content() for verdict in verdicts]}


def _left_out(plan: Plan, left_out: Reports, row: Row) -> dict:
    """Return an ensemble's results without each of its models, in the order of their seeds."""
    found = {n: values(left_out, row, MEASURES[n]) for n in plan.table.measures}
    complete = {name: results for name, results in found.items() if len(results) == plan.seeds}
    return {"left_out": complete} if complete else {}


def _lengths(plan: Plan, by_seed: Mapping[int, Report]) -> dict:
    """Return a row's BLEU by source length if the page contains that plot."""
    drawn = by_seed and "lengths" in plan.table.figures
    return {"lengths": [part._asdict() for part in mean_curve(by_seed)]} if drawn else {}
