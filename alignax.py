"""Use trained runs from Python, for example in a notebook (docs/python.md).

import alignax

run = alignax.load("runs/demo")
[result] = run.translate(["May 3, 2020"], beam=5)
print(result.text)
run.draw(result)
"""

import contextlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import absl.logging

if TYPE_CHECKING:  # importing JAX is slow, so functions import these modules
    import numpy as np

    from configs.base import Config
    from decoding.translator import Hypothesis, Translator
    from evaluation.canvas import Picture
    from tasks.task import LabelledInput
    from training.restore import RestoredRun

__all__ = ["Run", "TranslatedText", "load"]
_PACKAGES = (
    "configs", "data", "models", "tasks", "training", "decoding", "evaluation",
    "errors", "markup", "reading", "terminal", "writing",
)  # fmt: skip


class TranslatedText(NamedTuple):
    """A sentence and its hypotheses, the best one first."""

    source: list[str]  # tokens of the sentence, without </s>
    hypotheses: "list[Hypothesis]"
    unknown: list[str]  # tokens of the sentence that are not in the vocabulary

    def __repr__(self) -> str:
        """Return one line for interactive sessions, without the attention weights."""
        return f"<{self.text!r}, score {self.score:.2f}, hypotheses: {len(self.hypotheses)}>"

    @property
    def text(self) -> str:
        """The text of the best hypothesis."""
        return self.hypotheses[0].text

    @property
    def tokens(self) -> list[str]:
        """The tokens of the best hypothesis, which end in </s>."""
        return self.hypotheses[0].tokens

    @property
    def score(self) -> float:
        """log p of the best hypothesis, with the length and coverage penalties."""
        return self.hypotheses[0].score

    @property
    def attention(self) -> "np.ndarray | None":
        """Attention weights [target token, source token], both with </s>, or None."""
        return self.hypotheses[0].attention


def load(*workdirs: str | os.PathLike[str], checkpoint: str = "best") -> "Run":
    """Load a trained run; several translation runs form an ensemble.

    `checkpoint` is best, last, average or the number of a training step.
    """
    _check_imports()
    from errors import UserError

    for workdir in workdirs:
        if not isinstance(workdir, str | os.PathLike):
            raise UserError(
                f"load needs paths, as in load('runs/a', 'runs/b'), not {workdir!r:.60}"
            )
    from training.devices import make_mesh
    from training.restore import restore_runs

    mesh = make_mesh()
    with _quiet():
        runs = restore_runs(map(Path, workdirs), mesh, [str(checkpoint)], "the path")
    tasks = {run.task.config.task for run in runs}
    if not runs or (len(runs) > 1 and tasks != {"translation"}):
        raise UserError("load needs the folder of one run, or of several translation runs")
    if len(runs) > 1:
        from decoding.forced import check_ensemble

        check_ensemble([run.task for run in runs])
    return Run(runs, mesh)


class Run:
    """A trained run, or an ensemble of translation runs, which `load` returns."""

    def __init__(self, runs: "Sequence[RestoredRun]", mesh: Any):
        self._runs, self._mesh = runs, mesh
        self._translators: dict[tuple, Translator] = {}
        self._predictor: Any = None

    @property
    def config(self) -> "Config":
        """The config of the run."""
        return self._runs[0].task.config

    @property
    def task(self) -> str:
        """The name of the task: translation, classification, labelling or cloze."""
        return self.config.task

    def __repr__(self) -> str:
        from configs.registry import model_title

        return f"<{self.task} run: {model_title(self.config)}>"

    def translate(
        self, sentences: Iterable[str], attention: bool = True, **decode: Any
    ) -> list[TranslatedText]:
        """Translate sentences; `decode` are fields of config.decode, such as beam=5."""
        translator, sentences = self._translator(decode, "translate"), _texts(sentences)
        from data.vocabulary import unknown_tokens

        found = translator.in_order([run.params for run in self._runs], sentences, attention)
        tokens = [translator.source.tokens(text) for text in sentences]
        return [
            TranslatedText(source, hypotheses, unknown_tokens(translator.source, source))
            for source, hypotheses in zip(tokens, found, strict=True)
        ]

    def score(self, pairs: Iterable[tuple[str, str]]) -> list[float]:
        """Return log p of each translation, given (sentence, translation) pairs."""
        pairs = list(pairs)
        if any(isinstance(pair, str) or len(pair) != 2 for pair in pairs):
            from errors import UserError

            raise UserError("score needs pairs, as in [(sentence, translation)]")
        sources, targets = (_texts([pair[side] for pair in pairs]) for side in (0, 1))
        return self._translator({}, "score").score(
            [run.params for run in self._runs], sources, targets
        )

    def classify(self, texts: Iterable[str], attention: bool = True) -> "list[LabelledInput]":
        """Return the most probable class of each text."""
        self._check("classify", "classification")
        return self._predict(_texts(texts), attention)

    def predict(self, inputs: Iterable[Any], attention: bool = True) -> "list[LabelledInput]":
        """Label sequences, or answer cloze questions.

        Labelling: an input is a list of words, a dictionary of columns, the numbers of a series or
        the frames of a piano roll. Cloze: an input is a dictionary with passage, query and
        candidates.
        """
        self._check("predict", "labelling", "cloze")
        return self._predict(inputs, attention)

    def draw(self, result: "TranslatedText | LabelledInput") -> "Picture":
        """Draw the attention weights of a result, or its series or music, as a Matplotlib figure.

        A notebook shows the figure; `figure.savefig(...)` writes it to a file.
        """
        from errors import UserError
        from evaluation.drawing import draw_hypothesis, draw_input
        from tasks.task import LabelledInput

        if isinstance(result, TranslatedText):
            empty = not result.tokens
        elif isinstance(result, LabelledInput):
            empty = result.label is None
        else:
            raise UserError(
                f"draw needs a result of translate, classify or predict: {result!r:.60}"
            )
        if empty:
            raise UserError("there is nothing to draw: the input or its translation is empty")
        if isinstance(result, TranslatedText):
            figure = draw_hypothesis(result.source, result.hypotheses[0])
        else:
            figure = draw_input(result)
        if figure is None:
            raise UserError(
                "there is no attention to draw: the model has none, or the call had attention=False"
            )
        return figure

    def _predict(self, inputs: Iterable[Any], attention: bool) -> "list[LabelledInput]":
        from evaluation.inputs import InputPredictor

        if self._predictor is None:
            self._predictor = InputPredictor(self._runs[0].task, self._runs[0].params, self._mesh)
        return self._predictor([(x, f"input {i}") for i, x in enumerate(inputs)], attention)

    def _translator(self, decode: dict[str, Any], method: str) -> "Translator":
        """Return the translator for decode settings, with the functions that it has compiled."""
        self._check(method, "translation")
        from configs.check import changed_decode
        from decoding.translator import NUMBERS, Translator

        settings = changed_decode(self.config, decode)
        numbers = {name: settings[name] for name in NUMBERS}
        # Settings that differ only in numbers share a translator if both sample or neither does.
        sampled = {"sampled": settings.temperature > 0}
        kind = tuple({**settings, **dict.fromkeys(NUMBERS), **sampled}.items())
        if kind not in self._translators:
            tasks = [run.task for run in self._runs]
            self._translators[kind] = Translator(tasks, self._mesh, settings)
        return self._translators[kind].with_numbers(**numbers)

    def _check(self, method: str, *tasks: str) -> None:
        if self.task not in tasks:
            from errors import UserError

            raise UserError(f"{method} needs a {' or '.join(tasks)} run: this is a {self.task} run")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the log messages of Orbax; it reports errors as exceptions."""
    verbosity = absl.logging.get_verbosity()
    absl.logging.set_verbosity(absl.logging.FATAL)
    try:
        yield
    finally:
        absl.logging.set_verbosity(verbosity)


def _texts(texts: Iterable[str]) -> list[str]:
    from errors import UserError
    from reading import check_characters

    if isinstance(texts, str):
        raise UserError("a single text was given: put it into a list, as in [text]")
    found = list(texts)
    for number, text in enumerate(found):
        if not isinstance(text, str):
            raise UserError(f"input {number} is of type {type(text).__name__}: give texts (str)")
        check_characters(text, f"input {number}")
    return found


def _check_imports() -> None:
    """Raise ImportError if a module of the user hides a package of this repository."""
    root = Path(__file__).resolve().parent
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [*(spec.submodule_search_locations or [spec.origin])] if spec else []
        if not any(place and Path(place).resolve().is_relative_to(root) for place in places):
            raise ImportError(
                f"alignax needs the package {name!r} in {root}, but Python finds "
                f"{places[0] if places else 'none'}: rename the other module, or run "
                f"pip install -e {root}"
            )
