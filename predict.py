"""Translate text with a trained run, one sentence per line.

python predict.py --workdir=runs/a < in.txt > out.txt

At a terminal, the program asks for one sentence at a time. Several runs (--workdir=runs/a,runs/b)
or checkpoints form an ensemble. Decoding follows the run's config.decode; flags such as
--decode.beam=5 override it. --alignments=FILE writes word links of the output or, with
--score=FILE, of given translations. Terminal escape sequences and control characters in the
input are ignored.
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from absl import flags

import link_flags
import program
from configs.base import Config
from errors import UserError
from reading import reading, skip_mark
from terminal import ask, clean, edit_lines, leave_on_interrupt
from writing import to_json

if TYPE_CHECKING:  # importing JAX is slow, so functions import these modules
    from data.vocabulary import Vocabulary
    from decoding.translator import Hypothesis, Translator
    from evaluation.alignment import LinkSettings
    from evaluation.links import Aligner, Bitext

_WORKDIR = flags.DEFINE_list(
    "workdir", [], "Folder of a run that train.py created, or several, separated by commas."
)
_CHECKPOINT = flags.DEFINE_list(
    "checkpoint",
    ["best"],
    "best, last, the number of a training step, or average; several, separated by commas, form an "
    "ensemble.",
)
_SCORE = flags.DEFINE_string(
    "score",
    "",
    "File of translations, one per line of the input: print their log probabilities instead of "
    "translating.",
)
_ATTENTION = flags.DEFINE_string(
    "attention",
    "",
    "File to write tokens and attention weights to, one JSON object per hypothesis.",
)
_ALIGNMENTS = flags.DEFINE_string(
    "alignments",
    "",
    "File to write word links (0-0 1-2) to, one line per hypothesis; with --score, the links "
    "between the input and the given translations.",
)
_PICTURES = flags.DEFINE_string(
    "pictures", "", "Folder to write attention heat maps to, one per line; 0.png is the first line."
)
_DICTIONARY = flags.DEFINE_string(
    "dictionary",
    "",
    "TSV file with one source word and its target word per line, for "
    "--decode.replace_unknown=True.",
)
program.define_decode()
link_flags.define_alignment()
# Lines are read in blocks of this size, and batches group the lines of a block by length.
BLOCK = 4096


def main() -> None:
    if sys.stdin.isatty():
        leave_on_interrupt(status=0)
    # Ctrl-C is handled before these modules are imported, because importing JAX takes seconds.
    from decoding.translator import Translator
    from training.devices import make_mesh
    from training.restore import restore_runs

    settings, align = _check_flags()
    mesh, dictionary = make_mesh(), _read_dictionary(_DICTIONARY.value)
    runs = restore_runs(_WORKDIR.value, mesh, _CHECKPOINT.value)
    params = [run.params for run in runs]
    translator = Translator([run.task for run in runs], mesh, settings, dictionary)
    aligner = None
    if _ALIGNMENTS.value:
        from evaluation.links import make_aligner

        reverse = restore_runs(align.reverse, mesh, _CHECKPOINT.value, "--reverse_workdir")
        aligner = make_aligner(translator, params, align, reverse)
    if _SCORE.value:
        _score_all(translator, params, aligner)
    elif sys.stdin.isatty():
        _converse(translator, params)
    else:
        _translate_all(translator, params, aligner)


def _check_flags() -> "tuple[Config, LinkSettings]":
    """Check the command line; return the decode settings and the settings of word links."""
    from training.workdir import load_config

    if not _WORKDIR.value:
        raise UserError("--workdir is missing: name the folder of a run, such as --workdir=runs/a")
    if not _CHECKPOINT.value:
        raise UserError(
            "--checkpoint is empty: use best, last, average or the number of a training step"
        )
    for workdir in _WORKDIR.value:
        task = load_config(Path(workdir)).task
        if task != "translation":
            raise UserError(f"{workdir} is a {task} run: predict.py needs a translation run")
    settings = program.decode_settings(load_config(Path(_WORKDIR.value[0])))
    if _DICTIONARY.value and not settings.replace_unknown:
        raise UserError("--dictionary has no effect: add --decode.replace_unknown=True")
    if _SCORE.value and (_ATTENTION.value or _PICTURES.value or _DICTIONARY.value):
        raise UserError(
            "--score cannot be combined with --attention, --pictures or --dictionary: leave them "
            "out"
        )
    for flag in (_ATTENTION, _ALIGNMENTS):
        if flag.value and sys.stdin.isatty():
            raise UserError(
                f"--{flag.name} cannot be used at a terminal: translate a file, with < in.txt at "
                "the end of the command"
            )
    for name in () if _ALIGNMENTS.value else link_flags.given_alignment():
        raise UserError(f"--{name} has no effect: add --alignments=FILE")
    if _PICTURES.value:
        try:
            Path(_PICTURES.value).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"cannot create the folder --pictures={_PICTURES.value}: {error.strerror}"
            ) from None
    return settings, link_flags.alignment_settings()


def _converse(translator: "Translator", params: list) -> None:
    """Translate the lines that a user types at a terminal."""
    edit_lines()
    runs = ", ".join(_WORKDIR.value)
    sys.stderr.write(f"Translating with {runs}: type one sentence per line, Ctrl-D to leave.\n")
    number = 0
    while (line := ask()) is not None:
        if not line:
            continue
        attention = bool(_PICTURES.value)
        for _, hypotheses in translator.translate(params, [line], attention, first=number):
            for hypothesis in hypotheses:
                print(_shown(hypothesis, translator.settings.nbest, number), flush=True)
            _tell_unknown(translator.source, line)
            _draw(number, translator.source.tokens(line), hypotheses[0])
        number += 1


def _tell_unknown(vocabulary: "Vocabulary", line: str) -> None:
    """Print the tokens of a source line that are not in the source vocabulary."""
    from data.vocabulary import UNK

    tokens = vocabulary.tokens(line)
    known = zip(tokens, vocabulary.ids(tokens), strict=True)
    unknown = [token for token, i in known if i == UNK]
    if unknown:
        sys.stderr.write(f"not in the vocabulary: {', '.join(unknown)}\n")


def _score_all(translator: "Translator", params: list, aligner: "Aligner | None") -> None:
    """Print the log probability of each given translation, and write its word links."""
    from evaluation.links import bitext

    sources = [line for block in _blocks(sys.stdin.buffer) for line in block]
    try:
        with Path(_SCORE.value).open("rb") as file:
            targets = [line for block in _blocks(file, strict=True) for line in block]
    except OSError as error:
        raise UserError(
            f"cannot read --score={_SCORE.value} ({error.strerror}): name a file with one "
            "translation per line"
        ) from None
    if len(sources) != len(targets):
        raise UserError(
            f"the input has {len(sources):,} lines, but {_SCORE.value} has {len(targets):,}: "
            "it must have one translation per line of the input"
        )
    with _open(_ALIGNMENTS.value) if aligner else contextlib.nullcontext() as file:
        for log_p in translator.score(params, sources, targets):
            print(f"{log_p:.4f}")
        pairs = zip(sources, targets, strict=True)
        if aligner and file:
            _write_links(file, aligner, [bitext(translator.tasks[0], *pair) for pair in pairs])


def _translate_all(translator: "Translator", params: list, aligner: "Aligner | None") -> None:
    """Translate all lines of the input and print the translations in input order."""
    import tqdm

    from evaluation.links import hypothesis_bitext

    with contextlib.ExitStack() as stack:
        record, links = (
            stack.enter_context(_open(flag.value)) if flag.value else None
            for flag in (_ATTENTION, _ALIGNMENTS)
        )
        bar = stack.enter_context(tqdm.tqdm(unit=" lines", disable=None, mininterval=1.0))
        first, attention = 0, bool(_ATTENTION.value or _PICTURES.value)
        for block in _blocks(sys.stdin.buffer):
            found = {}
            for i, hypotheses in translator.translate(params, block, attention, first):
                found[i] = hypotheses
                bar.update()
            for i, text in enumerate(block):
                source = translator.source.tokens(text) if attention else []
                for rank, hypothesis in enumerate(found[i]):
                    print(_shown(hypothesis, translator.settings.nbest, first + i))
                    if record:
                        record.write(_record(first + i, rank, source, hypothesis))
                _draw(first + i, source, found[i][0])
            if aligner and links:
                task = translator.tasks[0]
                shown = [(text, h) for i, text in enumerate(block) for h in found[i]]
                _write_links(links, aligner, [hypothesis_bitext(task, *pair) for pair in shown])
            sys.stdout.flush()
            first += len(block)


def _write_links(file: TextIO, aligner: "Aligner", bitexts: "list[Bitext]") -> None:
    from data.links import format_links

    file.writelines(format_links(links) + "\n" for links in aligner.links(bitexts))


def _draw(line: int, source: list[str], hypothesis: "Hypothesis") -> None:
    """Draw the attention weights of a line's best hypothesis if --pictures is given."""
    if not (_PICTURES.value and hypothesis.tokens):  # an empty line has no tokens to draw
        return
    if hypothesis.attention is None:
        raise UserError("the model of this run has no attention to draw: leave --pictures out")
    from evaluation.translation import draw_hypothesis

    draw_hypothesis(source, hypothesis, Path(_PICTURES.value) / f"{line}.png")


def _open(name: str) -> TextIO:
    """Open a file for writing."""
    try:
        return Path(name).open("w", encoding="utf-8")
    except OSError as error:
        parent = Path(name).parent
        reason = error.strerror
        if not parent.exists():
            reason = f"the folder {parent} does not exist; create it first"
        raise UserError(f"cannot write {name}: {reason}") from None


def _blocks(lines: BinaryIO, strict: bool = False) -> Iterator[list[str]]:
    """Yield blocks of decoded and cleaned lines, without a byte order mark.

    A line that is not UTF-8 is treated as empty, or raises UserError if `strict`.
    """
    block = []
    for number, line in enumerate(skip_mark(lines), 1):
        try:
            block.append(clean(line.decode("utf-8").rstrip("\r\n")))
        except UnicodeDecodeError as error:
            if strict:
                raise UserError(
                    f"{lines.name}, line {number} is not UTF-8: convert the file to UTF-8"
                ) from None
            sys.stderr.write(
                f"line {number} is not UTF-8 ({error.reason}) and is treated as an empty line\n"
            )
            block.append("")
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _shown(hypothesis: "Hypothesis", nbest: int, number: int) -> str:
    """Return the output line of a hypothesis; if nbest > 1, it includes line number and score."""
    text = hypothesis.text.replace("\n", " ")
    return f"{number}\t{hypothesis.score:.4f}\t{text}" if nbest > 1 else text


def _record(line: int, rank: int, source: list[str], hypothesis: "Hypothesis") -> str:
    """Return the JSON line of a hypothesis in the file of --attention."""
    weights = hypothesis.attention
    record = {
        "line": line, "rank": rank, "score": hypothesis.score, "log_p": hypothesis.log_p,
        "source": [*source, "</s>"], "target": hypothesis.tokens,
        "attention": None if weights is None else weights.round(4).tolist(),
    }  # fmt: skip
    return to_json(record) + "\n"


def _read_dictionary(name: str) -> dict[str, str]:
    """Read a dictionary file; return a dict from source words to target words."""
    if not name:
        return {}
    with reading(Path(name), "set --dictionary to a readable UTF-8 file"):
        lines = Path(name).read_text("utf-8-sig").splitlines()
    pairs = [line.split("\t") for line in lines if line.strip()]
    if any(len(pair) != 2 for pair in pairs):
        raise UserError(
            f"{name}: each line of a dictionary must be a source word, a tab and a target word"
        )
    return dict(pairs)


if __name__ == "__main__":
    program.run(main)
