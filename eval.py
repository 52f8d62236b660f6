"""Score a trained run on a split of its corpus, or on any test sets, and write reports.

python eval.py --workdir=runs/a --split=test
python eval.py --workdir=runs/a --test=news=news.de,news.en --test=talks=talks.de,talks.en

Prints the scores and writes them to WORKDIR/eval/SPLIT: scores.json, hypotheses.txt or
predictions.txt, report.html, and plots (attention-*.png, heads-*.png for a Transformer,
prediction-*.png). If a translation model has attention, hypotheses.links and references.links
contain the word alignments (links such as 0-0 1-2) of the hypotheses and of the references. An
earlier report in that folder is replaced. To compare two decode settings, score the run with
--out=FOLDER first, then with the other settings and --against=FOLDER.

--test=NAME=FILE,... scores files that are not part of the corpus; repeat it to score several test
sets. For translation, the files are a source file and its references, line by line, or one TSV file
(source, tab, target). For other tasks, the file is a labelled file in the format of the run's
corpus. The reports are written to WORKDIR/eval/NAME, and the table of all scores to
WORKDIR/eval/tests.md and tests.json; --out=FOLDER replaces WORKDIR/eval. The corpus of the run is
not needed.

Scores for translation: perplexity, BLEU (sacreBLEU's and tokenized), chrF, TER, exact match, token
error rate and alignment error rate. Decoding follows the run's config.decode; flags such as
--decode.beam=5 override it. --align_weights, --align_threshold, --reverse_workdir,
--reverse_weights and --symmetrize choose the word links that are written and scored.

Scores for other tasks: the loss (scores.json describes it), accuracy, precision, recall and F1 of
chunks, error rate and macro F1 of classes, and, for cloze questions, the accuracy of choosing the
most frequent candidate. predictions.txt has one line per text (prediction, its probability, gold
label), one line per question (the same and the query), or one line per time step (word, gold label
and prediction, or the predicted values) with a blank line between sequences.

--faithfulness measures whether the attention of a model explains its predictions
(docs/faithfulness.md), for 200 examples or --faithfulness_examples.
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

import link_flags
import program
from configs.base import Config
from data.eval_sets import parse_eval_sets
from data.files import corpus_folder_flag
from errors import UserError

if TYPE_CHECKING:
    from evaluation.results import ReportOptions

_WORKDIR = program.define_required("workdir", "Folder of a run that train.py created.")
_SPLIT = flags.DEFINE_enum("split", "test", ["valid", "test"], "Split to score.")
_TEST = flags.DEFINE_multi_string(
    "test",
    [],
    "Test set to score instead of a split, such as news=news.de,news.en: a name, and a source file "
    "and references (translation) or a labelled file (other tasks)",
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "best",
    "best, last, the number of a training step, or average (the mean of the latest train.keep "
    "checkpoints).",
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", "", "Folder of the corpus, if it has moved since training."
)
_TRUST = flags.DEFINE_boolean(
    "trust_workdir",
    False,
    "Use the corpus and the folders that config.json names, even though you did not train this run "
    "(docs/decoding.md).",
)
_OUT = flags.DEFINE_string(
    "out",
    "",
    "Folder of the report (default: WORKDIR/eval/SPLIT); with --test, of one folder per test set "
    "(default: WORKDIR/eval).",
)
_PICTURES = flags.DEFINE_integer(
    "pictures", 4, "Number of examples to plot as PNG files.", lower_bound=0
)
_REPORT = flags.DEFINE_boolean("report", True, "Write report.html.")
_SENTENCES = flags.DEFINE_integer(
    "sentences", 50, "Number of examples in report.html.", lower_bound=1
)
_FAITHFULNESS = flags.DEFINE_boolean(
    "faithfulness",
    False,
    "Measure whether attention explains the predictions: remove source tokens, and replace the "
    "attention weights (docs/faithfulness.md).",
)
_FAITHFULNESS_EXAMPLES = flags.DEFINE_integer(
    "faithfulness_examples",
    200,
    "Number of examples that --faithfulness measures, evenly spaced in the split.",
    lower_bound=1,
)
_BEAMS = flags.DEFINE_list(
    "beams", [], "Translation: beam widths to compare, such as --beams=1,2,5,12."
)
_AGAINST = flags.DEFINE_string(
    "against",
    "",
    "Translation: compare with another run that eval.py has scored; give its workdir, or the "
    "folder that was its --out.",
)
program.define_decode()
link_flags.define_alignment()


def main() -> None:
    # These modules import JAX. They are imported here, because program.run must configure JAX
    # first, and because --help should be fast.
    from evaluation.score_table import plain_table
    from experiment import score_eval_sets, score_run
    from training.devices import make_mesh
    from training.workdir import load_config

    workdir = program.folder(_WORKDIR.value)
    sets = parse_eval_sets(_TEST.value)
    _check_test_flags()
    # With test sets, no value of config.json decides which files are read.
    config = load_config(workdir, signed=not (sets or _TRUST.value))
    config.data.dir = _DATA_DIR.value or config.data.dir
    options = _report_options(config, workdir)
    if sets:
        summary = score_eval_sets(config, workdir, make_mesh(), _CHECKPOINT.value, sets, options)
        print(plain_table(summary))
        print(f"Table: {options.folder / 'tests.md'}")
        return
    with corpus_folder_flag("--data_dir"):
        score_run(config, workdir, make_mesh(), _CHECKPOINT.value, options)
    page, scores = options.folder / "report.html", options.folder / "scores.json"
    print(f"Report: {page}" if options.page else f"Scores: {scores}")


def _check_test_flags() -> None:
    """Raise UserError if --test is given with a flag that chooses or reads the run's corpus."""
    for name in ("split", "data_dir", "trust_workdir") if _TEST.value else ():
        if flags.FLAGS[name].present:
            raise UserError(
                f"--{name} has no effect with --test, which does not use the corpus of the run: "
                "leave one of them out"
            )


def _report_options(config: Config, workdir: Path) -> "ReportOptions":
    """Check the flags and return the settings of the report."""
    from evaluation.results import ReportOptions, report_folder

    if config.task != "translation":
        given = [name for name in ("beams", "against") if flags.FLAGS[name].value]
        given += link_flags.given_alignment()
        if given:
            raise UserError(
                f"--{given[0]} needs a translation run, but this is a {config.task} run: leave it "
                "out"
            )
    if flags.FLAGS["faithfulness_examples"].present and not _FAITHFULNESS.value:
        raise UserError(
            "--faithfulness_examples has no effect without --faithfulness: add --faithfulness"
        )
    split = "" if _TEST.value else _SPLIT.value  # each test set becomes a split with its name
    other = Path(_AGAINST.value) if _AGAINST.value else None
    return ReportOptions(
        split=split,
        folder=Path(_OUT.value) if _OUT.value else workdir / "eval" / split,
        pictures=_PICTURES.value,
        page=_SENTENCES.value if _REPORT.value else 0,
        faithfulness=_FAITHFULNESS_EXAMPLES.value if _FAITHFULNESS.value else 0,
        decode=program.decode_settings(config),
        beams=_widths(),
        against=report_folder(other, split) if other and split else other,
        link_settings=link_flags.alignment_settings(),
        write_links=True,
    )


def _widths() -> list[int]:
    if not all(width.isdecimal() and int(width) > 0 for width in _BEAMS.value):
        raise UserError(
            f"--beams={','.join(_BEAMS.value)} is invalid: list beam widths, such as --beams=1,2,5"
        )
    return [int(width) for width in _BEAMS.value]


if __name__ == "__main__":
    program.run(main)
