"""Scores a trained run on a split of its corpus and keeps what it wrote.

python eval.py --workdir=runs/a --split=test

Writes scores.json, hypotheses.txt or predictions.txt, report.html and pictures (attention-*.png,
heads-*.png of a Transformer, prediction-*.png) to WORKDIR/eval/SPLIT, and prints the scores. What
was there is replaced: to compare two ways to decode, give one a folder by --out, and name that to
the other by --against.

Scores of a translator are perplexity, BLEU (sacreBLEU's and over tokens), chrF, TER, exact match,
token and alignment error; how to decode is the run's config.decode, and --decode.beam=5 and the
like change it.

Those of other tasks are the loss (scores.json says of what), accuracy, precision, recall and F1 of
chunks, error and mean F1 of classes, and how often a cloze's most frequent candidate is right.
predictions.txt then has a line for each text or question (ours, its probability, gold, the query),
or for each step, with a blank line after a sequence (word, gold, ours; or the numbers).
"""

from pathlib import Path

from absl import flags

import program
from errors import UserError

_WORKDIR = flags.DEFINE_string("workdir", "", "Folder of a run that train.py made.")
_SPLIT = flags.DEFINE_enum("split", "test", ["valid", "test"], "What to score.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "best",
    "best, last, the number of a step, or average: of the latest that are kept.",
)
_DATA_DIR = flags.DEFINE_string("data_dir", "", "The corpus' folder, should it have moved.")
_OUT = flags.DEFINE_string("out", "", "Folder of the results, in place of WORKDIR/eval/SPLIT.")
_PICTURES = flags.DEFINE_integer("pictures", 4, "Attention pictures to draw.", lower_bound=0)

_REPORT = flags.DEFINE_boolean("report", True, "Write report.html, a page to look around in.")
_SENTENCES = flags.DEFINE_integer(
    "sentences", 50, "Translations, or other examples, in that page.", lower_bound=1
)
_BEAMS = flags.DEFINE_list("beams", [], "Translation: beam widths to compare, as --beams=1,2,5,12.")
_AGAINST = flags.DEFINE_string(
    "against", "", "Translation: a run that is scored, or the --out of one, to compare with."
)
program.define_decode()


def main() -> None:
    from evaluation.results import Wanted
    from evaluation.runs import score_run
    from training.devices import make_mesh
    from training.workdir import load_config

    workdir = program.folder(_WORKDIR.value)
    config = load_config(workdir)
    config.data.dir = _DATA_DIR.value or config.data.dir
    if config.task != "translation" and (_BEAMS.value or _AGAINST.value):
        raise UserError(f"--beams and --against are for translation; this is a {config.task} run")
    folder = Path(_OUT.value) if _OUT.value else workdir / "eval" / _SPLIT.value
    wanted = Wanted(
        split=_SPLIT.value,
        folder=folder,
        pictures=_PICTURES.value,
        page=_SENTENCES.value if _REPORT.value else 0,
        decode=program.decode_settings(config),
        beams=_widths(),
        against=_scored(Path(_AGAINST.value)) if _AGAINST.value else None,
    )
    score_run(config, workdir, make_mesh(), _CHECKPOINT.value, wanted)
    print(f"kept in {folder}")


def _scored(other: Path) -> Path:
    """The folder of the results of another run, or `other` itself where it has them."""
    found = (other / "hypotheses.txt").exists()
    return other if found else other / "eval" / _SPLIT.value


def _widths() -> list[int]:
    if not all(width.isdecimal() and int(width) > 0 for width in _BEAMS.value):
        raise UserError(f"--beams={','.join(_BEAMS.value)}: widths are wanted, as --beams=1,2,5")
    return [int(width) for width in _BEAMS.value]


if __name__ == "__main__":
    program.run(main)
