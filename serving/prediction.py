"""Classification, labelling and cloze questions in the lab: predictions and what was read."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from data.inputs import STREAM
from errors import UserError
from evaluation.explained import source_weights
from evaluation.inputs import InputPredictor
from serving.requests import Body
from serving.run import Answer, Job, LabRun
from tasks.task import LabelledInput
from terminal import clean_lines
from training.restore import RestoredRun

MOST_WORDS = 1000  # words or time steps of an input
MOST_LABELS = 10  # labels of a distribution that are shown
LIKELY_LABELS = 4  # labels of a time step that are shown
PLACE = "the input"


class PredictionRun(LabRun):
    """A run that predicts without decoding; there is one subclass per task.

    The units of an input are its tokens, words, numbers or lines, which an edit changes.
    """

    kinds = ("predict",)

    def __init__(self, name: str, run: RestoredRun, mesh: Mesh):
        super().__init__(name, run, mesh)
        self._predictor = InputPredictor(run.task, run.params, mesh)
        self._corpus: Any = self._predictor.corpus

    def describe(self) -> Answer:
        return super().describe() | {"typed": "", "lines": False}

    def job(self, kind: str, body: Body, runs: Mapping[str, LabRun]) -> Job:
        edit, given = body.edit(), self.given(body)
        origin = None
        if edit.changes:
            other = runs.get(edit.run)
            if not isinstance(other, type(self)):
                raise UserError(
                    f"the run {edit.run!r:.80} of edit is no {self.config.task} run of the lab"
                )
            edited, origin = edit.apply(other.units(given), other.replacement)
            given = other.changed(given, edited, origin)
            if self.units(given) != edited:  # the units of this run are different
                origin = None
        units = self.units(given)
        if not units:
            raise UserError("the input has no words: type something")
        if len(units) > MOST_WORDS:
            raise UserError(
                f"the input has {len(units):,} words, and the lab reads at most {MOST_WORDS:,}: "
                "shorten it, or use predict.py"
            )
        return lambda: self._answer(given, origin)

    def warm_ups(self) -> list[Job]:
        inputs = [self.example(length) for length in (8, 16, 32, 64)]
        return [lambda given=given: self._answer(given, None) for given in inputs]

    def given(self, body: Body) -> Any:
        """Return the input of a request."""
        return body.text("text")

    def example(self, length: int) -> Any:
        """Return an input of about `length` units."""
        return " ".join(["a"] * length)

    @abc.abstractmethod
    def units(self, given: Any) -> list[str]:
        """Return the units of an input."""

    @abc.abstractmethod
    def changed(self, given: Any, units: list[str], origin: list[int]) -> Any:
        """Return an input with changed units, given the place where each of them comes from."""

    def replacement(self, old: str, text: str) -> list[str]:
        """Return the units of a text that replaces the unit `old`."""
        return text.split()

    def value(self, given: Any) -> Any:
        """Return an input as the predictor reads it."""
        return given

    @abc.abstractmethod
    def shown(self, result: LabelledInput) -> Answer:
        """Return what the page shows of a prediction."""

    def _answer(self, given: Any, origin: Sequence[int] | None) -> Answer:
        """Predict, with the model."""
        try:
            cut = self._predictor.counts.get("cut", 0)
            (result,) = self._predictor([(self.value(given), PLACE)], attention=True)
        except UserError as error:
            raise UserError(str(error).replace(STREAM, PLACE)) from None
        return {
            "units": self.units(given), "origin": origin, "unknown": list(result.unknown),
            "truncated": self._predictor.counts.get("cut", 0) > cut, **self.shown(result),
        }  # fmt: skip


class ClassificationRun(PredictionRun):
    """A classification run, whose units are the tokens of a text."""

    def units(self, given: str) -> list[str]:
        return [word for sentence in self._sentences(given) for word in sentence]

    def changed(self, given: str, units: list[str], origin: list[int]) -> str:
        # Sentences stay separate, because a line break ends a sentence.
        number = [n for n, words in enumerate(self._sentences(given)) for _ in words]
        lines: dict[int, list[str]] = {}
        for unit, place in zip(units, origin, strict=True):
            lines.setdefault(number[place], []).append(unit)
        vocabulary = self._task.prepared.vocabularies["words"]
        return "\n".join(map(vocabulary.detokenize, lines.values()))

    def replacement(self, old: str, text: str) -> list[str]:
        return self._task.prepared.vocabularies["words"].tokens(text)

    def _sentences(self, text: str) -> list[list[str]]:
        """Return the tokens of the sentences of a text, as the model reads them."""
        corpus, vocabularies = self._corpus, self._task.prepared.vocabularies
        encoded = corpus.encode_input(corpus.make_input(text, PLACE), vocabularies, {"cut": 0})
        words = encoded[1]["words"] if encoded else []
        return words if self.config.data.documents else [words]

    def shown(self, result: LabelledInput) -> Answer:
        maps, weights = {}, result.attention
        if "hops" in weights:
            maps["mean of the hops"] = source_weights(weights)
            maps |= {f"hop {i}": hop for i, hop in enumerate(weights["hops"])}
        elif "sentences" in weights:
            lengths = [len(words) for words in result.text["words"]]
            real = np.arange(weights["words"].shape[1]) < np.array(lengths)[:, None]
            maps["sentence weight × word weight"] = source_weights(weights)[real]
            maps["word weights in each sentence"] = weights["words"][real]
        return {
            "distribution": _distribution(result.probabilities),
            "maps": {name: weights.round(4).tolist() for name, weights in maps.items()},
        }


class LabellingRun(PredictionRun):
    """A labelling run, whose units are words, numbers, or lines with the columns of a word."""

    def __init__(self, name: str, run: RestoredRun, mesh: Mesh):
        super().__init__(name, run, mesh)
        self._lines: bool = self._corpus.ends_at_blank_line
        if self.config.data.corpus == "polymusic":
            raise UserError(
                f"{name} is a run of music, which cannot be typed: leave it out of --runs"
            )

    def describe(self) -> Answer:
        return super().describe() | {"typed": self._corpus.typed, "lines": self._lines}

    def example(self, length: int) -> str:
        word = "0.5" if self.config.data.corpus.startswith("series") else "a"
        if not self._lines:
            return " ".join([word] * length)
        columns = len(self._corpus.typed.partition("(")[2].partition(")")[0].split())
        return "\n".join([" ".join([word] * columns)] * length)

    def units(self, given: str) -> list[str]:
        text = clean_lines(given.removeprefix("\ufeff"))  # as the reader of the corpus does
        return _inner_lines(text) if self._lines else text.split()

    def changed(self, given: str, units: list[str], origin: list[int]) -> str:
        return ("\n" if self._lines else " ").join(units)

    def replacement(self, old: str, text: str) -> list[str]:
        columns = text.split()
        if not self._lines:
            return columns
        # The other columns of the line stay if only a word is given.
        return [" ".join([*columns, *old.split()[len(columns) :]])] if columns else []

    def value(self, given: str) -> Any:
        lines = (f"{unit}\n".encode() for unit in self.units(given))
        values = list(self._corpus.read_inputs(lines))
        if len(values) != 1:
            raise UserError("the input has blank lines: type one sequence")
        return values[0][0]

    def shown(self, result: LabelledInput) -> Answer:
        if isinstance(result.label, np.ndarray):
            return {"steps": [[{"label": f"{y:.4f}", "p": None}] for y in result.label[:, 0]]}
        names = self._task.prepared.vocabularies["label"].names
        named = (dict(zip(names, row.tolist(), strict=True)) for row in result.probabilities)
        return {"steps": [_distribution(row, LIKELY_LABELS) for row in named]}


class ClozeRun(PredictionRun):
    """A cloze run, whose units are the words of the passage."""

    def given(self, body: Body) -> dict[str, Any]:
        return body.question()

    def example(self, length: int) -> dict[str, Any]:
        passage = super().example(4 * length)
        return {"passage": passage, "query": "XXXXX a .", "candidates": ["a"]}

    def units(self, given: dict[str, Any]) -> list[str]:
        return given["passage"].split()

    def changed(self, given: dict[str, Any], units: list[str], origin: list[int]) -> dict[str, Any]:
        return {**given, "passage": " ".join(units)}

    def shown(self, result: LabelledInput) -> Answer:
        weights = {name: x.round(4).tolist() for name, x in result.attention.items()}
        query = {"words": result.text["query"], "weights": weights.get("beta"),
                 "rows": weights.get("alpha")}  # fmt: skip
        return {
            "distribution": _distribution(result.probabilities),
            "maps": {"weights of the answer": weights["s"]},
            "query": query,
        }


def _inner_lines(text: str) -> list[str]:
    """Return the lines of a text without the blank lines at its ends."""
    lines = text.split("\n")
    full = [i for i, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _distribution(probabilities: Mapping[str, float], most: int = MOST_LABELS) -> list[Answer]:
    ranked = sorted(probabilities.items(), key=lambda pair: -pair[1])[:most]
    return [{"label": label, "p": p} for label, p in ranked]
