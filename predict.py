"""Apply a trained run to new input, which is read from standard input.

python predict.py --workdir=runs/a < in.txt > out.txt

The task of the run determines the input format. Translation: one sentence per line.
Classification: one text per line. Labelling: one word per line, with a blank line between sentences
(series: one number per line; music: a MATLAB file). Cloze: questions in the format of the corpus,
whose answers are ignored. At a terminal, the program asks for one input at a time. --output chooses
text, TSV or JSON. Terminal escape sequences and control characters in the input are ignored.

Translation: several runs (--workdir=runs/a,runs/b) or checkpoints form an ensemble. Decoding
follows the run's config.decode; flags such as --decode.beam=5 override it. --alignments=FILE writes
word alignments of the output or, with --score=FILE, of given translations.
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

import link_flags
import program
from configs.base import Config
from errors import UserError
from reading import reading
from terminal import leave_on_interrupt

if TYPE_CHECKING:  # importing JAX is slow, so functions import these modules
    from jax.sharding import Mesh

    from evaluation.alignment import LinkSettings
    from evaluation.streams import Destination

_WORKDIR = program.define_required(
    "workdir",
    "Folder of a run. For translation, several folders separated by commas, or a pattern such as "
    "'runs/a/seed*', form an ensemble.",
)
_CHECKPOINT = flags.DEFINE_list(
    "checkpoint",
    ["best"],
    "best, last, the number of a training step, or average. For translation, several checkpoints "
    "separated by commas form an ensemble.",
)
_OUTPUT = flags.DEFINE_enum(
    "output",
    "text",
    ["text", "tsv", "json"],
    "Format of the output: text for people, tab-separated values, or one JSON object per input "
    "(docs/predicting.md).",
)
_SCORE = flags.DEFINE_string(
    "score",
    "",
    "Translation: file of translations, one per line of the input: print their log-probabilities "
    "instead of translating.",
)
_ATTENTION = flags.DEFINE_string(
    "attention",
    "",
    "Write one JSON object per output with tokens and attention weights to this file; '-' adds the "
    "weights to --output=json.",
)
_ALIGNMENTS = flags.DEFINE_string(
    "alignments",
    "",
    "Translation: write word alignments (Pharaoh format, 0-0 1-2) to this file, one line per "
    "hypothesis or, with --score, per given translation.",
)
_PICTURES = flags.DEFINE_string(
    "pictures",
    "",
    "Draw each input's attention weights, series or music in this folder, as 0.png, 1.png, ...",
)
_DICTIONARY = flags.DEFINE_string(
    "dictionary",
    "",
    "Translation: TSV file with one source word and its target word per line, for "
    "--decode.replace_unknown=True.",
)
program.define_decode()
link_flags.define_alignment()


def main() -> None:
    if sys.stdin.isatty():
        leave_on_interrupt(status=0)
    # Ctrl-C is handled before these modules are imported, because importing JAX takes seconds.
    from training.devices import make_mesh

    workdirs, config = _check_runs()
    _check_files()
    if config.task == "translation":
        settings, align = _check_translation(config)
        _translate(workdirs, make_mesh(), settings, align)
    else:
        _check_prediction(config)
        _predict(workdirs, make_mesh())


def _check_runs() -> tuple[list[Path], Config]:
    """Return the folders of the runs, and the config of the first one.

    Raise UserError if the runs cannot be combined.
    """
    from training.finding import find_workdirs
    from training.workdir import load_config

    if not _WORKDIR.value:
        raise UserError("--workdir is missing: name the folder of a run, such as --workdir=runs/a")
    if not _CHECKPOINT.value:
        raise UserError(
            "--checkpoint is empty: use best, last, average or the number of a training step"
        )
    workdirs = find_workdirs(_WORKDIR.value, "--workdir")
    configs = [load_config(workdir) for workdir in workdirs]
    if len(configs) * len(_CHECKPOINT.value) > 1:
        for workdir, config in zip(workdirs, configs, strict=True):
            if config.task != "translation":
                raise UserError(
                    f"{workdir} is a {config.task} run, but only translation runs can form an "
                    "ensemble: name one run and one checkpoint"
                )
    return workdirs, configs[0]


def _check_files() -> None:
    """Check the flags of all tasks that name files."""
    for flag in (_ATTENTION, _ALIGNMENTS):
        if flag.value and sys.stdin.isatty():
            raise UserError(
                f"--{flag.name} cannot be used at a terminal: give a file, with < in.txt at the "
                "end of the command"
            )
    if _ATTENTION.value == "-" and _OUTPUT.value != "json":
        raise UserError("--attention=- adds the weights to JSON objects: add --output=json")
    if _ALIGNMENTS.value == "-":
        raise UserError("--alignments=- is not possible: name a file, such as links.txt")


def _make_pictures_folder() -> None:
    if not _PICTURES.value:
        return
    try:
        Path(_PICTURES.value).mkdir(parents=True, exist_ok=True)
        if any(Path(_PICTURES.value).glob("*.png")):
            logging.getLogger("alignax").warning(
                "--pictures=%s already contains pictures: those of inputs that are not drawn again "
                "are kept", _PICTURES.value,
            )  # fmt: skip
    except OSError as error:
        raise UserError(
            f"cannot create the folder --pictures={_PICTURES.value}: {error.strerror}"
        ) from None


def _check_translation(config: Config) -> "tuple[Config, LinkSettings]":
    """Check the flags of translation; return the decode settings and those of word links."""
    settings = program.decode_settings(config)
    if _DICTIONARY.value and not settings.replace_unknown:
        raise UserError("--dictionary has no effect: add --decode.replace_unknown=True")
    given = [f"--{x.name}" for x in (_ATTENTION, _PICTURES, _DICTIONARY, _OUTPUT) if x.present]
    if _SCORE.value and given:
        raise UserError(f"--score cannot be combined with {given[0]}: leave it out")
    for name in () if _ALIGNMENTS.value else link_flags.given_alignment():
        raise UserError(f"--{name} has no effect: add --alignments=FILE")
    return settings, link_flags.alignment_settings()


def _check_prediction(config: Config) -> None:
    """Raise UserError if a flag does not fit a run that is no translation run."""
    given = [x.name for x in (_SCORE, _ALIGNMENTS, _DICTIONARY) if x.present]
    for name in [*given, *link_flags.given_alignment()]:
        raise UserError(
            f"--{name} needs a translation run, but this is a {config.task} run: leave it out"
        )
    program.decode_settings(config)
    if config.task == "labelling" and _ATTENTION.value:
        raise UserError("--attention has no effect on a labelling run: leave it out")
    if config.task == "labelling" and _PICTURES.value and config.data.corpus == "columns":
        raise UserError("--pictures has no effect on a run that labels words: leave it out")
    if config.data.corpus == "polymusic" and sys.stdin.isatty():
        raise UserError(
            "music cannot be typed: give a MATLAB file, with < songs.mat at the end of the command"
        )


def _predict(workdirs: list[Path], mesh: "Mesh") -> None:
    """Predict labels for the inputs of standard input."""
    from evaluation.inputs import InputPredictor
    from evaluation.streams import LabelStream, converse
    from training.restore import restore_runs

    (run,) = restore_runs(workdirs, mesh, _CHECKPOINT.value)
    _make_pictures_folder()
    predictor = InputPredictor(run.task, run.params, mesh)
    stream = LabelStream(predictor, _destination())
    if sys.stdin.isatty():
        several = predictor.corpus.ends_at_blank_line
        converse(
            stream.answer, f"Predicting with {_names(workdirs)}", predictor.corpus.typed, several
        )
    else:
        stream.predict_all(sys.stdin.buffer)


def _translate(workdirs: list[Path], mesh: "Mesh", settings: Config, align: "LinkSettings") -> None:
    """Translate or score the sentences of standard input."""
    from decoding.translator import Translator
    from evaluation.links import make_aligner
    from evaluation.streams import NOTHING_TO_DRAW, converse
    from evaluation.translation_stream import TranslationStream
    from training.restore import restore_runs

    dictionary = _read_dictionary(_DICTIONARY.value)
    runs = restore_runs(workdirs, mesh, _CHECKPOINT.value)
    params = [run.params for run in runs]
    translator = Translator([run.task for run in runs], mesh, settings, dictionary)
    if _PICTURES.value and not translator.attention_names(params):
        raise UserError(NOTHING_TO_DRAW)
    _make_pictures_folder()
    aligner = None
    if _ALIGNMENTS.value:
        reverse = restore_runs(align.reverse, mesh, _CHECKPOINT.value, "--reverse_workdir")
        aligner = make_aligner(translator, params, align, reverse)
    stream = TranslationStream(translator, params, _destination(), aligner)
    if _SCORE.value:
        stream.score_all(sys.stdin.buffer, Path(_SCORE.value))
    elif sys.stdin.isatty():
        converse(stream.answer, f"Translating with {_names(workdirs)}", "one sentence per line")
    else:
        stream.translate_all(sys.stdin.buffer)


def _names(workdirs: list[Path]) -> str:
    return ", ".join(map(str, workdirs))


def _destination() -> "Destination":
    from evaluation.streams import Destination

    return Destination(_OUTPUT.value, _ATTENTION.value, _PICTURES.value, _ALIGNMENTS.value)


def _read_dictionary(name: str) -> dict[str, str]:
    """Read a dictionary file; return a dict from source words to target words."""
    if not name:
        return {}
    with reading(Path(name), "set --dictionary to a readable UTF-8 file"):
        lines = Path(name).read_text("utf-8-sig").split("\n")
    from data.tokenizers import normalized

    pairs = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            source, tab, target = line.partition("\t")
            if not tab or "\t" in target:
                raise UserError(
                    f"{name}, line {number}: a line of a dictionary must be a source word, a tab "
                    "and a target word"
                )
            pairs[normalized(source)] = normalized(target)
    return pairs


if __name__ == "__main__":
    program.run(main, hint="; the input is read from standard input: add < FILE")
