r"""Compare trained runs on one page: configs, learning curves, scores, costs and attention.

python compare.py --runs=runs/a,runs/b
python compare.py '--runs=sweeps/windows/runs/*/seed*' --out=windows.html

Writes one HTML page that needs no network access and no other files. Runs that differ only in their
seeds form one system. The page contains

- the config fields in which the systems differ,
- the learning curves of all runs, from log.jsonl,
- the scores, as mean ± standard deviation over seeds, with p-values of the differences,
- parameters, training tokens, time, operations and devices,
- the same examples side by side, with their attention weights, sorted by how much the systems
  disagree.

Scores, examples and attention come from the reports that eval.py has written to RUN/eval/SPLIT. A
run without such a report is compared without them, and the command that writes its report is
printed. For attention weights of more examples, score the runs with eval.py --sentences=1000, for
example. docs/comparing.md describes the page.
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import logging
from pathlib import Path

from absl import flags

import program
from errors import UserError
from writing import writing

_RUNS = program.define_required(
    "runs", "Folders of runs that train.py created, separated by commas. A pattern in quotes, "
    "such as 'sweeps/a/runs/*/seed0', names all runs that it matches.",
)  # fmt: skip
_SPLIT = flags.DEFINE_string(
    "split", "test", "Split (valid or test), or name of a test set (eval.py --test), whose reports "
    "are compared.",
)  # fmt: skip
_SENTENCES = flags.DEFINE_integer(
    "sentences", 500, "Largest number of examples on the page. Those with attention weights are "
    "preferred, then those with the largest disagreement.",
    lower_bound=0,
)  # fmt: skip
_OUT = flags.DEFINE_string("out", "comparison.html", "File of the page.")


def main() -> None:
    from comparing.page import write_comparison
    from comparing.runs import parse_runs

    if not _RUNS.value:
        raise UserError("--runs is missing: list folders of runs, such as --runs=runs/a,runs/b")
    name = Path(_SPLIT.value).name
    if name != _SPLIT.value or name in ("", ".."):
        raise UserError(
            f"--split={_SPLIT.value} is not the name of a report: use valid, test, or the name of "
            "a test set that eval.py --test has scored"
        )
    path = Path(_OUT.value)
    if path.is_dir():
        raise UserError(f"--out={path} is a folder: name a file, such as --out={path}/page.html")
    folders = parse_runs(_RUNS.value)
    with writing(path.parent, "run the same command again"):
        path.parent.mkdir(parents=True, exist_ok=True)
        notes = write_comparison(folders, _SPLIT.value, _SENTENCES.value, path)
    for note in notes:
        logging.getLogger("alignax").warning(note)
    print(f"Comparison of {len(folders)} runs: {path}")


if __name__ == "__main__":
    program.run(main)
