"""Schuster & Paliwal 1997: what a delay, merging and two directions are worth, on their series.

    python -m papers.schuster1997 --workdir=runs/schuster1997 --seeds=0,1,2,3,4

Trains every network with every seed (those that are done already are not trained again), prints
the comparison and writes it to WORKDIR/comparison.md and WORKDIR/delay.png. --data=series_classes is
the paper's other task, whether y(t) is over .5; --cell=lstm and gru take other cells.

The paper shows plots and no table: the delay helps a network of one direction up to a point, merged
networks beat either, and the BRNN beats all.
"""

import logging
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

from absl import flags

import program
from configs.schuster1997 import get_config
from errors import UserError

_WORKDIR = flags.DEFINE_string("workdir", "runs/schuster1997", "Folder for all these runs.")
_SEEDS = flags.DEFINE_list("seeds", ["0", "1", "2", "3", "4"], "Seeds, as --seeds=0,1,2.")
_DATA = flags.DEFINE_enum("data", "series", ["series", "series_classes"], "Which task.")
_CELL = flags.DEFINE_enum("cell", "elman", ["elman", "lstm", "gru"], "Which cell.")

DELAYS = (0, 2, 5, 10, 15, 20)


class Row(NamedTuple):
    network: str
    delay: int = 0

    @property
    def name(self) -> str:
        return f"{self.network}, delay {self.delay}" if self.network in DELAYED else self.network


DELAYED = ("forward", "backward")
ROWS = [
    Row("mlp"), Row("tdnn"), *(Row(network, k) for network in DELAYED for k in DELAYS),
    Row("merged"), Row("brnn"),
]  # fmt: skip


def main() -> None:
    if not all(seed.isdecimal() for seed in _SEEDS.value) or not _SEEDS.value:
        raise UserError(f"--seeds={','.join(_SEEDS.value)}: numbers are wanted, as --seeds=0,1,2")
    folder = program.folder(_WORKDIR.value)
    from papers.runs import test_scores

    logger = logging.getLogger("alignax")
    results: dict[Row, list[float]] = {row: [] for row in ROWS}
    for seed in map(int, _SEEDS.value):
        for row in ROWS:
            config = get_config(f"data={_DATA.value},network={row.network},cell={_CELL.value}")
            config.model.delay, config.seed = row.delay, seed
            logger.info(f"--- {row.name}, seed {seed}")
            run = folder / f"{_DATA.value}-{_CELL.value}-{row.network}-{row.delay}-{seed}"
            scores = test_scores(config, run)
            error = 1 - scores["accuracy"] if "accuracy" in scores else scores["loss"]
            results[row].append(error)
    text = comparison(results, _DATA.value)
    (folder / "comparison.md").write_text(text, "utf-8")
    draw(results, _DATA.value, folder / "delay.png")
    print(f"{text}\nkept in {folder}")


def comparison(results: dict[Row, list[float]], data: str) -> str:
    """A table, the best first, and a sentence on the paper's ordering."""
    measure = "mean squared error" if data == "series" else "classes wrong"
    seeds = len(next(iter(results.values())))
    lines = [f"| network | {measure}, test | ± over {seeds} seeds |", "|---|---|---|"]
    for row, values in sorted(results.items(), key=lambda item: mean(item[1])):
        spread = f"{stdev(values):.2g}" if seeds > 1 else "–"
        lines.append(f"| {row.name} | {mean(values):.3g} | {spread} |")
    best = {
        network: min(
            (row for row in results if row.network == network), key=lambda row: mean(results[row])
        )
        for network in (*DELAYED, "merged", "brnn")
    }
    one = min((best[network] for network in DELAYED), key=lambda row: mean(results[row]))
    order = [mean(results[best["brnn"]]), mean(results[best["merged"]]), mean(results[one])]
    holds = "holds" if order == sorted(order) else "does not hold"
    inside = ", ".join(
        f"{network} {best[network].delay}" for network in DELAYED
    )
    lines += [
        "",
        f"BRNN < merged < best of one direction ({one.name}) {holds}: "
        + ", ".join(f"{x:.3g}" for x in order) + ".",
        f"Best delays of {DELAYS[0]} to {DELAYS[-1]}: {inside}.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def draw(results: dict[Row, list[float]], data: str, path: Path) -> None:
    """The paper's figure: error by delay, with the other networks as levels."""
    from evaluation.pictures import levels_and_curves

    curves = {
        network: (DELAYS, [results[Row(network, k)] for k in DELAYS]) for network in DELAYED
    }
    levels = {network: results[Row(network)] for network in ("mlp", "tdnn", "merged", "brnn")}
    measure = "mean squared error" if data == "series" else "classes wrong"
    levels_and_curves(curves, levels, "delay, steps", f"{measure} (test)", path)


if __name__ == "__main__":
    program.run(main)
