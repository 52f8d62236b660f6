"""Classification, labelling and cloze questions in the lab: predictions and what was read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from data.inputs import STREAM
from errors import UserError
from evaluation.explained import source_weights
from evaluation.inputs import InputPredictor
from serving.requests import Body, Edit
from serving.run import Answer, Job, LabRun
from tasks.task import LabelledInput
from terminal import clean_lines
from training.restore import RestoredRun

MOST_WORDS = 1000  # words or time steps of an input
MOST_LABELS = 10  # labels of a distribution that are shown
LIKELY_LABELS = 4  # labels of a time step that are shown
PLACE = "the input"


class PredictionRun(LabRun):
    """A classification, labelling or cloze run."""

    kinds = ("predict",)

    def __init__(self, name: str, run: RestoredRun, mesh: Mesh):
        super().__init__(name, run, mesh)
        self._predictor = InputPredictor(run.task, run.params, mesh)
        self._corpus: Any = self._predictor.corpus
        self._parts: dict[str, Callable[[LabelledInput], Answer]] = {
            "classification": _classified,
            "labelling": self._labelled,
            "cloze": _answered,
        }
        if self.config.data.corpus == "polymusic":
            raise UserError(
                f"{name} is a run of music, which cannot be typed: leave it out of --runs"
            )

    def describe(self) -> Answer:
        several = self._corpus.ends_at_blank_line and self.config.task == "labelling"
        typed = self._corpus.typed if self.config.task == "labelling" else ""
        return super().describe() | {"typed": typed, "lines": several}

    def job(self, kind: str, body: Body, runs: Mapping[str, LabRun]) -> Job:
        edit, task = body.edit(), self.config.task
        given: Any = body.question() if task == "cloze" else body.text("text")
        origin = None
        if edit.changes:
            other = runs.get(edit.run)
            if not isinstance(other, PredictionRun) or other.config.task != task:
                raise UserError(f"the run {edit.run!r:.80} of edit is no {task} run of the lab")
            given, edited, origin = other.changed(given, edit)
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
        task, numbers = self.config.task, self.config.data.corpus.startswith("series")
        word = "0.5" if numbers else "a"
        inputs: list[Any] = []
        for length in (8, 16, 32, 64):
            if task == "cloze":
                words = " ".join([word] * 4 * length)
                inputs.append({"passage": words, "query": "XXXXX a .", "candidates": [word]})
            elif task == "labelling" and self._corpus.ends_at_blank_line:
                columns = len(self._corpus.typed.partition("(")[2].partition(")")[0].split())
                inputs.append("\n".join([" ".join([word] * columns)] * length))
            else:
                inputs.append(" ".join([word] * length))
        return [lambda given=given: self._answer(given, None) for given in inputs]

    # The units of an input are its tokens, words, numbers or lines, which an edit changes.

    def units(self, given: Any) -> list[str]:
        """Return the units of an input."""
        if self.config.task == "cloze":
            return given["passage"].split()
        if self.config.task == "classification":
            return [word for sentence in self._sentences(given) for word in sentence]
        text = clean_lines(given.removeprefix("\ufeff"))  # as the reader of the corpus does
        return _inner_lines(text) if self._corpus.ends_at_blank_line else text.split()

    def changed(self, given: Any, edit: Edit) -> tuple[Any, list[str], list[int]]:
        """Return an input with changed units, these units, and the place where each comes from."""
        units, origin = edit.apply(self.units(given), self._replacement)
        if self.config.task == "cloze":
            return {**given, "passage": " ".join(units)}, units, origin
        if self.config.task == "labelling":
            separator = "\n" if self._corpus.ends_at_blank_line else " "
            return separator.join(units), units, origin
        # Sentences stay separate, because a line break ends a sentence.
        number = [n for n, words in enumerate(self._sentences(given)) for _ in words]
        lines: dict[int, list[str]] = {}
        for unit, place in zip(units, origin, strict=True):
            lines.setdefault(number[place], []).append(unit)
        vocabulary = self._task.prepared.vocabularies["words"]
        return "\n".join(map(vocabulary.detokenize, lines.values())), units, origin

    def _replacement(self, old: str, text: str) -> list[str]:
        if self.config.task == "classification":
            return self._task.prepared.vocabularies["words"].tokens(text)
        if self.config.task == "labelling" and self._corpus.ends_at_blank_line:
            columns = text.split()
            # The other columns of the line stay if only a word is given.
            return [" ".join([*columns, *old.split()[len(columns) :]])] if columns else []
        return text.split()

    def _sentences(self, text: str) -> list[list[str]]:
        """Return the tokens of the sentences of a text, as the model reads them."""
        corpus, vocabularies = self._corpus, self._task.prepared.vocabularies
        encoded = corpus.encode_input(corpus.make_input(text, PLACE), vocabularies, {"cut": 0})
        words = encoded[1]["words"] if encoded else []
        return words if self.config.data.documents else [words]

    # Answers

    def _answer(self, given: Any, origin: Sequence[int] | None) -> Answer:
        """Predict, with the model."""
        value = given
        try:
            if self.config.task == "labelling":
                lines = (f"{unit}\n".encode() for unit in self.units(given))
                values = list(self._corpus.read_inputs(lines))
                if len(values) != 1:
                    raise UserError("the input has blank lines: type one sequence")
                value = values[0][0]
            cut = self._predictor.counts.get("cut", 0)
            (result,) = self._predictor([(value, PLACE)], attention=True)
        except UserError as error:
            raise UserError(str(error).replace(STREAM, PLACE)) from None
        return {
            "units": self.units(given), "origin": origin, "unknown": list(result.unknown),
            "truncated": self._predictor.counts.get("cut", 0) > cut,
            **self._parts[self.config.task](result),
        }  # fmt: skip

    def _labelled(self, result: LabelledInput) -> Answer:
        if isinstance(result.label, np.ndarray):
            return {"steps": [[{"label": f"{y:.4f}", "p": None}] for y in result.label[:, 0]]}
        names = self._task.prepared.vocabularies["label"].names
        named = (dict(zip(names, row.tolist(), strict=True)) for row in result.probabilities)
        return {"steps": [_distribution(row, LIKELY_LABELS) for row in named]}


def _inner_lines(text: str) -> list[str]:
    """Return the lines of a text without the blank lines at its ends."""
    lines = text.split("\n")
    full = [i for i, line in enumerate(lines) if line.strip()]
    return lines[full[0] : full[-1] + 1] if full else []


def _distribution(probabilities: Mapping[str, float], most: int = MOST_LABELS) -> list[Answer]:
    ranked = sorted(probabilities.items(), key=lambda pair: -pair[1])[:most]
    return [{"label": label, "p": p} for label, p in ranked]


def _classified(result: LabelledInput) -> Answer:
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


def _answered(result: LabelledInput) -> Answer:
    weights = {name: x.round(4).tolist() for name, x in result.attention.items()}
    query = {"words": result.text["query"], "weights": weights.get("beta"),
             "rows": weights.get("alpha")}  # fmt: skip
    return {
        "distribution": _distribution(result.probabilities),
        "maps": {"weights of the answer": weights["s"]},
        "query": query,
    }
