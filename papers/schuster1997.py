"""Schuster & Paliwal 1997: what a delay, merging and two directions are worth, on their series.

    python -m papers.schuster1997 --workdir=runs/schuster1997 --seeds=0,1,2,3,4

Trains every network with every seed (those that are done already are not trained again), prints
the comparison and writes it to WORKDIR/comparison.md and WORKDIR/delay.png. --data=series_classes
is the paper's other task, whether y(t) is over .5; --cell=lstm and gru take other cells.

The paper shows plots and no table: the delay helps a network of one direction up to a point, merged
networks beat either, and the BRNN beats all.
"""

import itertools
import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import numpy as np
from absl import flags

import program
from configs.base import Config
from configs.schuster1997 import get_config
from data.labelling import prepare
from errors import UserError
from evaluation.pictures import levels_and_curves
from papers.runs import scores_of

DELAYS = (0, 2, 5, 10, 15, 20)


class Row(NamedTuple):
    """A network; None is a direction that it does not delay."""

    network: str
    forward: int | None = None
    backward: int | None = None

    @property
    def name(self) -> str:
        delays = [str(k) for k in self[1:] if k is not None]
        return self.network + (f", delay {' and '.join(delays)}" if delays else "")

    def config(self, data: str, cell: str, seed: int) -> Config:
        config = get_config(f"data={data},network={self.network},cell={cell}")
        config.model.forward_delay = self.forward or 0
        config.model.backward_delay = self.backward or 0
        config.seed = seed
        return config


FORWARD = [Row("forward", forward=k) for k in DELAYS]
BACKWARD = [Row("backward", backward=k) for k in DELAYS]
Errors = dict[Row, list[float]]


def compare(data: str, cell: str, seeds: Sequence[int], folder: Path) -> str:
    """Trains all that is not trained yet; writes and returns the comparison."""
    errors: dict[str, Errors] = {"valid": {}, "test": {}}

    def run(row: Row, seed: int) -> Path:
        delays = f"{row.forward or 0}-{row.backward or 0}"
        return folder / f"{data}-{cell}-{row.network}-{delays}-{seed}"

    def measure(*rows: Row) -> None:
        for row, seed in itertools.product(rows, seeds):
            logging.getLogger("alignax").info(f"--- {row.name}, seed {seed}")
            config = row.config(data, cell, seed)
            for split, own in errors.items():
                scores = scores_of(config, run(row, seed), split)
                error = 1 - scores["accuracy"] if "accuracy" in scores else scores["loss"]
                own.setdefault(row, []).append(error)

    measure(*FORWARD, *BACKWARD, Row("mlp"), Row("tdnn"), Row("brnn"), Row("merged", 0, 0))
    # The delays of the merged networks are those that suit each by itself, by the validation split.
    best = [min(rows, key=lambda row: mean(errors["valid"][row])) for rows in (FORWARD, BACKWARD)]
    merged = Row("merged", best[0].forward, best[1].backward)
    measure(*{merged} - {Row("merged", 0, 0)})
    if data == "series":  # classes would need the probabilities, which no run keeps
        merged = merged._replace(network="separately trained and merged")
        config = best[0].config(data, cell, seeds[0])
        errors["test"][merged] = [
            merged_error(config, [run(row, seed) for row in best]) for seed in seeds
        ]
    measured = "mean squared error" if data == "series" else "classes wrong"
    text = comparison(errors["test"], merged, measured)
    (folder / "comparison.md").write_text(text, "utf-8")
    draw(errors["test"], merged, measured, folder / "delay.png")
    return text


def merged_error(config: Config, runs: Sequence[Path]) -> float:
    """Of the mean of what these runs predicted for the test split."""
    split = prepare(config.data).split("test")
    gold = np.concatenate([x["label"][:, 0] for x in split.examples(np.arange(len(split)))])
    files = [(run / "eval" / "test" / "predictions.txt").read_text().split() for run in runs]
    return float(np.mean((np.mean(np.array(files, float), axis=0) - gold) ** 2))


def comparison(errors: Errors, merged: Row, measured: str) -> str:
    """A table, the best first, and a sentence on the paper's ordering."""
    seeds = len(errors[merged])
    lines = [f"| network | {measured}, test | ± over {seeds} seeds |", "|---|---|---|"]
    for row, values in sorted(errors.items(), key=lambda item: mean(item[1])):
        spread = f"{stdev(values):.2g}" if seeds > 1 else "–"
        lines.append(f"| {row.name} | {mean(values):.3g} | {spread} |")
    best = {name: min(rows, key=lambda row: mean(errors[row])) for name, rows in _ONE_WAY.items()}
    one = min(best.values(), key=lambda row: mean(errors[row]))
    order = [mean(errors[row]) for row in (Row("brnn"), merged, one)]
    holds = "holds" if order == sorted(order) else "does not hold"
    figures = ", ".join(f"{x:.3g}" for x in order)
    return "\n".join([
        *lines, "",
        f"BRNN < {merged.name} < {one.name}, the best of one direction: {holds} ({figures}).",
        f"Best of the delays {DELAYS}: forward {best['forward'].forward}, "
        f"backward {best['backward'].backward}.", "",
    ])  # fmt: skip


def draw(errors: Errors, merged: Row, measured: str, path: Path) -> None:
    """The paper's figure: error by delay, with the other networks as levels."""
    curves = {name: (DELAYS, [errors[row] for row in rows]) for name, rows in _ONE_WAY.items()}
    rows = (Row("mlp"), Row("tdnn"), merged, Row("brnn"))
    levels = {row.name: errors[row] for row in rows}
    levels_and_curves(curves, levels, "delay, steps", f"{measured} (test)", path)


_ONE_WAY = {"forward": FORWARD, "backward": BACKWARD}


def main() -> None:
    given = flags.FLAGS
    if not all(seed.isdecimal() for seed in given.seeds) or not given.seeds:
        raise UserError(f"--seeds={','.join(given.seeds)}: numbers are wanted, as --seeds=0,1,2")
    folder = program.folder(given.workdir)
    print(compare(given.data, given.cell, list(map(int, given.seeds)), folder))
    print(f"kept in {folder}")


if __name__ == "__main__":
    flags.DEFINE_string("workdir", "runs/schuster1997", "Folder for all these runs.")
    flags.DEFINE_list("seeds", ["0", "1", "2", "3", "4"], "Seeds, as --seeds=0,1,2.")
    flags.DEFINE_enum("data", "series", ["series", "series_classes"], "Which task.")
    flags.DEFINE_enum("cell", "elman", ["elman", "lstm", "gru"], "Which cell.")
    program.run(main)
