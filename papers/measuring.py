"""Measure the cost of architectures on this device, and read the results of their tuning."""

from pathlib import Path

from papers.frontier import Cost, Frontier, Setting, budget_steps, run_row, settings
from papers.plan import Plan
from reading import read_json
from sweeping.devices import machine_shares
from sweeping.estimate import estimate
from sweeping.log import best_metrics, read_complete_log
from writing import write_json

TIMED = 100  # number of timed training steps, after as many untimed training steps
_COST = {
    "run": str, "parameters": int, "recipe": int, "epoch": int, "tokens": float,
    "operations": float, "seconds": float, "overhead": float, "device": str,
}  # fmt: skip


def measure_costs(plan: Plan, timed: int = TIMED) -> dict[str, Cost]:
    """Return the cost of every architecture, from short training runs that use the whole machine.

    Costs are kept in costs.json and are measured again only if the config changes or the entry is
    removed: the numbers of training steps of all other runs follow from them.
    """
    path = plan.page_folder / "costs.json"
    known = read_json(path, {str: _COST}, f"remove {path}") if path.exists() else {}
    for row in plan.table.rows:
        run = plan.run_name(row)
        if known.get(row.name, {}).get("run") == run:
            continue
        print(f"measuring the cost of {row.name} in {2 * timed} training steps", flush=True)
        e = estimate(plan.base(row), dict(row.changes), machine_shares(1)[0], timed)
        cost = Cost(
            e.parameters, e.steps, e.epoch, e.count, e.operations, e.step_seconds, e.overhead,
            e.device,
        )  # fmt: skip
        known[row.name] = {"run": run, **cost._asdict()}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, known, indent=1)
    return {
        row.name: Cost(**{key: known[row.name][key] for key in Cost._fields})
        for row in plan.table.rows
    }


def read_tuning(
    frontier: Frontier, plan: Plan, costs: dict[str, Cost]
) -> dict[str, dict[Setting, float]]:
    """Map architectures and settings to validation scores; runs that are not complete are left out.

    The score is that of the metric of the config, which is BLEU for sentences.
    """
    from training.workdir import is_done

    found: dict[str, dict[Setting, float]] = {}
    for row in plan.table.rows:
        metric = plan.config(row).train.eval_metric
        steps = budget_steps(frontier, costs, row.name)[frontier.tuned_at]
        found[row.name] = {}
        for setting in settings(frontier, plan, row):
            folder: Path = plan.run_folder(run_row(row, steps, setting), seed=0)
            if not is_done(folder):
                continue
            scores = best_metrics(read_complete_log(folder / "log.jsonl"), metric)
            if metric in scores:
                found[row.name][setting] = scores[metric]
    return found
