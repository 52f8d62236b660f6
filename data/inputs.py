"""New input for a trained model: examples without labels, from a stream or from Python values."""

import abc
import logging
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from data.corpus import Corpus, Encoded
from errors import UserError
from reading import skip_mark
from terminal import clean_lines

logger = logging.getLogger("alignax")
T = TypeVar("T")
STREAM = "standard input"
# A value (a text, the words or columns of a sentence, an array or a question), and its place, such
# as "standard input, line 3", for error messages.
Input = tuple[Any, str]


class LabelledCorpus(Corpus[T]):
    """A corpus with labels, which a trained model predicts for new input.

    All corpora except parallel corpora are labelled: new text is translated by a `Translator`.
    """

    typed: str  # what a person types at a prompt, such as "one text per line"; "" if not text
    ends_at_blank_line = False  # whether a typed input may have several lines

    @abc.abstractmethod
    def read_inputs(self, lines: Iterable[bytes]) -> Iterator[Input]:
        """Read values from the lines of a stream, without holding them all in memory."""

    @abc.abstractmethod
    def make_input(self, value: Any, place: str) -> T:
        """Check a value, and return it as an example without a label."""

    @abc.abstractmethod
    def encode_input(
        self, example: T, vocabularies: dict[str, Any], counts: dict[str, int]
    ) -> Encoded | None:
        """Return the fields and the text of an example; its label is not used.

        Return None if the example is empty. `encode` calls this method and adds the label.
        """

    def typed_lines(self, lines: list[str]) -> list[str]:
        """Return the lines of a stream that correspond to lines typed at a prompt."""
        return lines


def decoded_lines(lines: Iterable[bytes], name: str = STREAM, strict: bool = True) -> Iterator[str]:
    """Yield UTF-8 lines without line breaks, byte order mark, escape sequences and controls.

    Tabs are kept. A line that is not UTF-8 raises UserError, or is empty if not `strict`.
    """
    for number, line in enumerate(skip_mark(lines), 1):
        try:
            yield clean_lines(line.decode("utf-8").rstrip("\r\n"))
        except UnicodeDecodeError as error:
            if strict:
                raise UserError(
                    f"{name}, line {number} is not UTF-8: convert the file to UTF-8"
                ) from None
            logger.warning(
                "line %d is not UTF-8 (%s) and is treated as an empty line", number, error.reason
            )
            yield ""


def is_words(value: Any) -> bool:
    """Return whether a value is a list of words: nonempty strings without white space."""
    return isinstance(value, list | tuple) and all(
        isinstance(word, str) and word.split() == [word] for word in value
    )
