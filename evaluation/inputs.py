"""Predictions for new inputs, for tasks that predict without decoding.

Inputs are batched by length into a few shapes, because every shape needs a compilation.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from data.batches import Batch, padded_batches
from data.inputs import Input
from data.store import axis_lengths
from data.vocabulary import UNK
from decoding.groups import CompiledShapes, batch_rows, length_groups, padded_width
from tasks.task import LabelledInput, Params, PredictionTask
from training.devices import batch_results, compiled

BATCH = 64  # inputs that are predicted together


class InputPredictor:
    """Predict the labels of new inputs with a model; every batch shape is compiled once.

    `counts` counts the inputs that were changed, such as truncated texts, as described in
    `Corpus.count_messages`.
    """

    def __init__(self, task: PredictionTask, params: Params, mesh: Mesh):
        self.task, self.mesh, self._params = task, mesh, params
        self.corpus = task.corpus(task.config.data)
        self.counts = dict.fromkeys(self.corpus.count_messages, 0)
        self._run = compiled(mesh, self._predict, static_argnames="attention")
        self._shapes = CompiledShapes()

    def _predict(
        self, params: Params, batch: dict[str, jax.Array], attention: bool
    ) -> tuple[jax.Array, dict[str, jax.Array], dict[str, jax.Array]]:
        predicted, weights = self.task.predict(params, batch)
        return batch["index"], predicted, weights if attention else {}

    def __call__(self, inputs: Sequence[Input], attention: bool = False) -> list[LabelledInput]:
        """Return the predictions of all inputs, in their order."""
        corpus, vocabularies = self.corpus, self.task.prepared.vocabularies
        examples = [corpus.make_input(value, place) for value, place in inputs]
        encoded = [corpus.encode_input(e, vocabularies, self.counts) for e in examples]
        results = [self.task.empty_input] * len(inputs)
        batches = self._batches([e[0] if e else {} for e in encoded])
        for index, predicted, weights in batch_results(
            self._run, self.mesh, self._params, batches, ahead=1, attention=attention
        ):
            for row, i in enumerate(index[index >= 0]):
                fields, text = encoded[i] or ({}, {})
                unknown, words = _unknown(self.task.word_field, fields, text)
                # Rows are copied, so that the arrays of the batch can be freed.
                p = {name: values[row].copy() for name, values in {**predicted, **weights}.items()}
                labelled = self.task.labelled_input(fields, text, p)
                results[i] = labelled._replace(unknown=unknown, words=words)
        return results

    def _batches(self, examples: Sequence[Mapping[str, Any]]) -> Iterator[Batch]:
        """Yield batches of inputs of similar lengths, without empty inputs."""
        fields = self.task.prepared.fields
        lengths = [axis_lengths(fields, e) if e else [0] for e in examples]
        for width, group in length_groups([n[0] for n in lengths], BATCH):
            others = np.array([lengths[i] for i in group]).max(axis=0)[1:]
            rows = batch_rows(len(group), self.mesh.size, BATCH)
            rows, *shape = self._shapes.fit(rows, width, *(padded_width(int(n)) for n in others))
            yield from padded_batches(fields, examples, group, rows, shape)


def _unknown(
    name: str, fields: Mapping[str, Any], text: Mapping[str, Any]
) -> tuple[list[str], int]:
    """Return the words of an input that are not in the vocabulary, and the number of words."""
    if name not in fields or name not in text:
        return [], 0
    words = text[name]
    if words and isinstance(words[0], list):  # the sentences of a document
        words = list(itertools.chain.from_iterable(words))
    ids = np.asarray(fields[name])
    ids = ids[ids > 0]  # without the padding of sentences
    return [word for word, i in zip(words, ids, strict=True) if i == UNK], len(words)
