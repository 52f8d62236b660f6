"""Apply a model to a stream of inputs or at a terminal, for tasks that predict without decoding.

A stream is read in blocks, and batches group the inputs of a block by length, so the memory does
not depend on the length of the stream.
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

import tqdm

from errors import UserError
from evaluation.drawing import draw_input
from evaluation.formats import input_record, input_text
from evaluation.inputs import InputPredictor
from tasks.task import LabelledInput
from terminal import ask, clean_lines, edit_lines
from writing import write_lines

T = TypeVar("T")
BLOCK = 4096  # inputs per block
NOTHING_TO_DRAW = "the model of this run has no attention to draw: leave --pictures out"


class Destination(NamedTuple):
    """Where the output of predict.py goes: the values of its flags."""

    output: str = "text"  # format on standard output: text, tsv or json
    attention: str = ""  # file of JSON objects with attention; -: include it in the output
    pictures: str = ""  # folder of pictures
    alignments: str = ""  # file of word links

    @property
    def needs_attention(self) -> bool:
        """Whether attention weights must be computed."""
        return bool(self.attention or self.pictures)

    def picture(self, number: int) -> Path:
        """Return the path of the picture of an input."""
        return Path(self.pictures) / f"{number}.png"


class LabelStream:
    """Predict and print the labels of inputs."""

    def __init__(self, predictor: InputPredictor, destination: Destination):
        self._predictor, self._to = predictor, destination

    def predict_all(self, lines: Iterable[bytes]) -> None:
        """Predict the labels of all inputs of a stream, and print them in input order."""
        corpus, first, strange = self._predictor.corpus, 0, 0
        with open_output(self._to.attention) as record, progress(corpus.unit) as bar:
            for block in read_blocks(corpus.read_inputs(lines)):
                results = self._predictor(block, self._to.needs_attention)
                for number, result in enumerate(results, first):
                    sys.stdout.write(self._shown(number, result))
                    if record:
                        record.write(input_record(number, result, attention=True))
                    self._draw(number, result)
                    strange += 0 < result.words == len(result.unknown)
                    bar.update()
                sys.stdout.flush()
                first += len(block)
        cut = self._predictor.counts.get("cut", 0)
        if cut:
            sys.stderr.write(
                f"{corpus.unit} {corpus.count_messages['cut']}: {cut:,} of {first:,}\n"
            )
        if strange:
            sys.stderr.write(
                f"{corpus.unit} in which no word is in the vocabulary (their predictions are "
                f"unreliable): {strange:,} of {first:,}\n"
            )

    def answer(self, lines: list[str], number: int) -> None:
        """Print the prediction of an input that was typed; a mistake is one message."""
        try:
            typed = self._predictor.corpus.typed_lines(lines)
            inputs = self._predictor.corpus.read_inputs(f"{line}\n".encode() for line in typed)
            for result in self._predictor(list(inputs), self._to.needs_attention):
                print(self._shown(number, result).rstrip("\n"), flush=True)
                tell_unknown(result.unknown)
                self._draw(number, result)
        except UserError as error:
            sys.stderr.write(clean_lines(f"error: {error}\n"))

    def _shown(self, number: int, result: LabelledInput) -> str:
        if self._to.output == "json":
            return input_record(number, result, self._to.attention == "-")
        return input_text(number, result, self._to.output == "tsv")

    def _draw(self, number: int, result: LabelledInput) -> None:
        """Draw an input if --pictures is given; an empty input is not drawn."""
        if not self._to.pictures or result.label is None:
            return
        if draw_input(result, self._to.picture(number)) is None:
            raise UserError(NOTHING_TO_DRAW)


def tell_unknown(tokens: Iterable[str]) -> None:
    """Print tokens of a typed input that are not in the vocabulary."""
    shown = ", ".join(tokens)
    if shown:
        sys.stderr.write(f"not in the vocabulary: {shown}\n")


def converse(
    answer: Callable[[list[str], int], None], banner: str, typed: str, several: bool = False
) -> None:
    """Call `answer` with the lines and the number of each input that a user types.

    If `several`, an input has several lines and ends at a blank line. `typed` tells the user what
    to type.
    """
    edit_lines()
    end = ", and then a blank line" if several else ""
    sys.stderr.write(f"{banner}: type {typed}{end}, Ctrl-D to leave.\n")
    lines, number = list[str](), 0
    while (line := ask()) is not None:
        if line:
            lines.append(line)
        if lines and not (several and line):
            answer(lines, number)
            lines, number = [], number + 1
    if lines:  # Ctrl-D instead of a blank line
        answer(lines, number)


def read_blocks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of at most BLOCK items."""
    rest = iter(items)
    while block := list(itertools.islice(rest, BLOCK)):
        yield block


def progress(unit: str) -> Any:
    """Return a progress bar, which is shown only if stderr is a terminal."""
    return tqdm.tqdm(unit=f" {unit}", disable=None, mininterval=1.0)


@contextlib.contextmanager
def open_output(name: str) -> Iterator[TextIO | None]:
    """Open a file for writing; yield None if there is no name, or the name is -."""
    if name in ("", "-"):
        yield None
        return
    try:
        with write_lines(Path(name)) as file:
            yield file
    except OSError as error:
        if error.filename is None or Path(name).name not in str(error.filename):
            raise
        parent, reason = Path(name).parent, error.strerror
        if not parent.exists():
            reason = f"the folder {parent} does not exist; create it first"
        raise UserError(f"cannot write {name}: {reason}") from None
