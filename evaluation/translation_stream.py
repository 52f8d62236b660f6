"""Translate or score a stream of sentences, or translate at a terminal."""

import itertools
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from data.inputs import decoded_lines
from data.links import format_links
from data.vocabulary import unknown_tokens
from decoding.translator import Hypothesis, Translator
from errors import UserError
from evaluation.drawing import draw_hypothesis
from evaluation.formats import hypothesis_record, hypothesis_text
from evaluation.links import Aligner, Bitext, bitext, hypothesis_bitext
from evaluation.streams import (
    NOTHING_TO_DRAW,
    Destination,
    open_output,
    progress,
    read_blocks,
    tell_unknown,
)
from reading import reading
from tasks.task import Params
from terminal import clean

EMPTY_ADVICE = "train the model for longer, or set --decode.min_ratio"

logger = logging.getLogger("alignax")


class TranslationStream:
    """Translate and print sentences; `aligner` links the words of sentences and translations."""

    def __init__(
        self,
        translator: Translator,
        params: Sequence[Params],
        destination: Destination,
        aligner: Aligner | None = None,
    ):
        self._translator, self._params = translator, params
        self._to, self._aligner = destination, aligner

    def translate_all(self, lines: Iterable[bytes]) -> None:
        """Translate all lines of a stream, and print the translations in input order."""
        first, strange, long, empty, task = 0, 0, 0, 0, self._translator.tasks[0]
        longest = min(t.config.data.max_length for t in self._translator.tasks)
        with (
            open_output(self._to.attention) as record,
            open_output(self._to.alignments) as links,
            progress("lines") as bar,
        ):
            for block in read_blocks(_sentences(lines)):
                found: dict[int, list[Hypothesis]] = {}
                for i, hypotheses in self._hypotheses(block, first):
                    found[i] = hypotheses
                    bar.update()
                for i, text in enumerate(block):
                    source, unknown = self._write(first + i, text, found[i], record)
                    strange += bool(unknown)
                    long += len(source) > longest
                    empty += bool(source) and not found[i][0].text
                if links:
                    shown = [(text, h) for i, text in enumerate(block) for h in found[i]]
                    self._link(links, [hypothesis_bitext(task, *pair) for pair in shown])
                sys.stdout.flush()
                first += len(block)
        if strange:
            sys.stderr.write(
                "sentences with tokens outside the vocabulary, whose translations are unreliable: "
                f"{strange:,} of {first:,}\n"
            )
        if long:
            sys.stderr.write(
                f"sentences longer than the limit of training (data.max_length={longest} tokens), "
                f"whose translations may be unreliable: {long:,} of {first:,}\n"
            )
        if empty:
            sys.stderr.write(f"{empty:,} of {first:,} translations are empty: {EMPTY_ADVICE}\n")

    def answer(self, lines: list[str], number: int) -> None:
        """Print the translations of a sentence that was typed, and messages about it."""
        text = clean(lines[0])
        for _, hypotheses in self._hypotheses([text], number):
            source, unknown = self._write(number, text, hypotheses)
            sys.stdout.flush()
            tell_unknown(unknown)
            if source and not hypotheses[0].text:
                sys.stderr.write(f"the translation is empty: {EMPTY_ADVICE}\n")

    def score_all(self, lines: Iterable[bytes], path: Path) -> None:
        """Print log p of the translations in a file, and write their word links."""
        task, counts, empty = self._translator.tasks[0], [0, 0], 0
        advice = "set --score to a file with one translation per line"
        translations = map(clean, _lines_of(path, advice))
        with open_output(self._to.alignments) as f:
            sides = read_blocks(_sentences(lines)), read_blocks(translations)
            for block in itertools.zip_longest(*sides, fillvalue=[]):
                counts = [count + len(part) for count, part in zip(counts, block, strict=True)]
                if len(block[0]) != len(block[1]):
                    rest = [sum(map(len, side)) for side in sides]
                    raise UserError(
                        f"the input has {counts[0] + rest[0]:,} lines, but {path} has "
                        f"{counts[1] + rest[1]:,}: it must have one translation per line of the "
                        "input"
                    )
                for log_p in self._translator.score(self._params, *block):
                    print(f"{log_p:.4f}")
                empty += sum(not text.strip() for text in block[0])
                if f:
                    pairs = zip(*block, strict=True)
                    self._link(f, [bitext(task, *pair) for pair in pairs])
        if empty:
            logger.warning(f"{empty:,} lines of the input are empty: their scores mean little")

    def _hypotheses(self, texts: list[str], first: int) -> Iterator[tuple[int, list[Hypothesis]]]:
        attention = self._to.needs_attention
        return self._translator.translate(self._params, texts, attention, first)

    def _write(
        self, number: int, text: str, hypotheses: list[Hypothesis], record: TextIO | None = None
    ) -> tuple[list[str], list[str]]:
        """Print the hypotheses of a sentence, write them to `record`, and draw the best one.

        Return the tokens of the sentence, and those that are not in the vocabulary.
        """
        source = self._translator.source.tokens(text)
        unknown = unknown_tokens(self._translator.source, source)
        numbered = self._to.output == "tsv" or self._translator.settings.nbest > 1
        for rank, hypothesis in enumerate(hypotheses):
            if self._to.output == "json":
                shown = self._to.attention == "-"
                line = hypothesis_record(number, rank, source, unknown, hypothesis, shown)
            else:
                line = hypothesis_text(number, hypothesis, numbered)
            sys.stdout.write(line)
            if record:
                line = hypothesis_record(number, rank, source, unknown, hypothesis, True)
                record.write(line)
        if self._to.pictures:
            self._draw(number, source, hypotheses[0])
        return source, unknown

    def _draw(self, number: int, source: list[str], best: Hypothesis) -> None:
        """Draw a hypothesis; an empty line has no tokens to draw."""
        if best.tokens and draw_hypothesis(source, best, self._to.picture(number)) is None:
            raise UserError(NOTHING_TO_DRAW)

    def _link(self, file: TextIO, bitexts: list[Bitext]) -> None:
        assert self._aligner is not None
        file.writelines(format_links(links) + "\n" for links in self._aligner.links(bitexts))


def _lines_of(path: Path, advice: str) -> Iterator[str]:
    """Yield the lines of a file; only errors of reading it are reported as such."""
    with reading(path, advice), path.open("rb") as file:
        yield from decoded_lines(file, str(path))


def _sentences(lines: Iterable[bytes]) -> Iterator[str]:
    return map(clean, decoded_lines(lines, strict=False))
