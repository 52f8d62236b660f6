"""Predictions for new inputs, for tasks that predict without decoding.

Inputs are batched by length into a few shapes, because every shape needs a compilation.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from data.batches import Batch, pad_examples
from data.inputs import Input, LabelledCorpus
from data.store import axis_lengths
from data.vocabulary import UNK
from decoding.groups import CompiledShapes, batch_rows, length_groups, padded_width
from evaluation.predictions import Prediction
from tasks.task import Params
from training.devices import abstract, compile_all, compiled, fetched, put

BATCH = 64  # inputs that are predicted together
# The field and the text that contain the words of an example, by task.
_WORDS = {"classification": "words", "labelling": "word", "cloze": "passage"}


class LabelledInput(NamedTuple):
    """An input and its prediction. An empty input has no prediction: its label is None.

    The label is a class label, the answer to a question, one class label per word or time step, an
    array [time, 1] of predicted values, or, for music, an array [frame, note] with the
    probabilities of the notes of the next frame.
    """

    text: Mapping[str, Any]  # the words, sentences or columns; the passage, query and candidates
    label: Any = None
    p: Any = None  # probability of the label, or one per time step; None for values and notes
    probabilities: Any = None  # by class label or candidate, or [time, class] for sequences
    attention: Mapping[str, np.ndarray] = {}  # attention weights by name, if they were asked for
    unknown: Sequence[str] = ()  # the words that are not in the vocabulary
    words: int = 0  # number of words


# The results of inputs without words, by task; inputs of other tasks cannot be empty.
_EMPTY = {"classification": LabelledInput({"words": []}, probabilities={})}


class InputPredictor:
    """Predict the labels of new inputs with a model; every batch shape is compiled once.

    `counts` counts the inputs that were changed, such as truncated texts (see Corpus.counted).
    """

    def __init__(self, task: Any, params: Params, mesh: Mesh):
        self.task, self.mesh, self._params = task, mesh, params
        self.corpus: LabelledCorpus = task.corpus(task.config.data)
        self.counts = dict.fromkeys(self.corpus.counted, 0)
        self._describe = _DESCRIPTIONS[task.config.task]
        self._run = compiled(mesh, self._predict, static_argnames="attention")
        self._shapes = CompiledShapes()

    def _predict(
        self, params: Params, batch: dict[str, jax.Array], attention: bool
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        predicted, weights = self.task.predict(params, batch)
        return predicted, weights if attention else {}

    def __call__(self, inputs: Sequence[Input], attention: bool = False) -> list[LabelledInput]:
        """Return the predictions of all inputs, in their order."""
        corpus, vocabularies = self.corpus, self.task.prepared.vocabularies
        examples = [corpus.make_input(value, place) for value, place in inputs]
        encoded = [corpus.encode_input(e, vocabularies, self.counts) for e in examples]
        results = [_EMPTY.get(self.task.config.task, LabelledInput({}))] * len(inputs)
        batches = self._batches([e and e[0] for e in encoded], attention)
        calls = (
            self._run(self._params, put(batch, self.mesh), attention=attention)
            for _, batch in batches
        )
        found = zip(batches, fetched(calls, ahead=1), strict=True)
        for (members, _), (predicted, weights) in found:
            for row, i in enumerate(members):
                fields, text = encoded[i] or ({}, {})
                unknown, words = _unknown(self.task.config.task, fields, text)
                # Rows are copied, so that the arrays of the batch can be freed.
                p = {name: values[row].copy() for name, values in {**predicted, **weights}.items()}
                described = self._describe(self.task, fields, text, p)
                results[i] = described._replace(unknown=unknown, words=words)
        return results

    def _batches(
        self, examples: list[Mapping[str, Any] | None], attention: bool
    ) -> list[tuple[list[int], Batch]]:
        """Return batches of inputs of similar lengths, each with the indices of its inputs."""
        fields = self.task.prepared.fields
        lengths = [axis_lengths(fields, e) if e else [0] for e in examples]
        batches = []
        for width, group in length_groups([n[0] for n in lengths], BATCH):
            others = np.array([lengths[i] for i in group]).max(axis=0)[1:]
            rows = batch_rows(len(group), self.mesh.size, BATCH)
            rows, *shape = self._shapes.fit(rows, width, *(padded_width(int(n)) for n in others))
            for first in range(0, len(group), rows):
                members = group[first : first + rows]
                chosen: Any = [examples[i] for i in members]
                batches.append((members, pad_examples(fields, chosen, rows, shape)))
        by_shape = {tuple(x.shape for x in batch.values()): batch for _, batch in batches}
        calls = [(self._params, abstract(batch, self.mesh)) for batch in by_shape.values()]
        compile_all(self._run, calls, attention=attention)
        return batches


def _unknown(
    task: str, fields: Mapping[str, Any], text: Mapping[str, Any]
) -> tuple[list[str], int]:
    """Return the words of an input that are not in the vocabulary, and the number of words."""
    name = _WORDS[task]
    if name not in fields or name not in text:
        return [], 0
    words = text[name]
    if words and isinstance(words[0], list):  # the sentences of a document
        words = list(itertools.chain.from_iterable(words))
    ids = np.asarray(fields[name])
    ids = ids[ids > 0]  # without the padding of sentences
    return [word for word, i in zip(words, ids, strict=True) if i == UNK], len(words)


def _classified(
    task: Any, fields: Mapping[str, Any], text: Mapping[str, Any], p: Prediction
) -> LabelledInput:
    names, shape = task.labels.names, np.shape(fields["words"])
    crops = {"hops": (slice(None), slice(shape[-1])), "words": tuple(map(slice, shape)),
             "sentences": (slice(shape[0]),)}  # fmt: skip
    return LabelledInput(
        text,
        names[int(p["label"])],
        float(p["p"]),
        dict(zip(names, p["probabilities"].tolist(), strict=True)),
        {name: p[name][crop] for name, crop in crops.items() if name in p},
    )


def _labelled(
    task: Any, fields: Mapping[str, Any], text: Mapping[str, Any], p: Prediction
) -> LabelledInput:
    # The frame after the end of a piano roll is predicted, but predicts nothing.
    label = p["label"][: fields["length"] - (task.kind == "notes")]
    if task.kind != "classes":
        inputs = fields["x"] if task.kind == "values" else fields["label"][:-1]
        return LabelledInput({**text, "x": np.asarray(inputs)}, label)
    names = task.prepared.vocabularies["label"].names
    probabilities = p["probabilities"][: len(label)]
    found = LabelledInput(text, [names[i] for i in label], probabilities.max(axis=1), probabilities)
    return found if text else found._replace(text={"x": np.asarray(fields["x"])})


def _answered(
    task: Any, fields: Mapping[str, Any], text: Mapping[str, Any], p: Prediction
) -> LabelledInput:
    passage, query = len(text["passage"]), len(text["query"])
    crops = {"s": (slice(passage),), "alpha": (slice(query), slice(passage)),
             "beta": (slice(query),)}  # fmt: skip
    candidates = text["candidates"]
    return LabelledInput(
        text,
        candidates[int(p["answer"]) - 1],
        float(p["p"]),
        dict(zip(candidates, p["probabilities"].tolist(), strict=False)),
        {name: p[name][crop] for name, crop in crops.items() if name in p},
    )


_DESCRIPTIONS: dict[str, Callable[..., LabelledInput]] = {
    "classification": _classified,
    "labelling": _labelled,
    "cloze": _answered,
}
