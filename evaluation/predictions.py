"""Compute losses and predictions of a split, for tasks that predict without decoding."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from data.batches import Batches
from evaluation.progress import show_progress
from tasks.task import Params, Task
from training.devices import abstract, compile_all, compiled, dispatched, put
from training.loop import Evaluate, Evaluation, means

Prediction = dict[str, Any]  # a model's outputs for one example: arrays and scalars by name
# Example indices, loss sums, predictions and attention weights of one batch.
BatchResult = tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]


def split_batches(task: Task, split: str, mesh: Mesh) -> Iterator[dict[str, jax.Array]]:
    """Yield this host's share of each batch of a split, sharded over the devices."""
    for batch in task.eval_batches(split, jax.process_index(), jax.process_count()):
        yield put(batch, mesh)


def count_batches(task: Task, split: str) -> int:
    """Return the number of batches of a split."""
    return Batches(*task.split(split)).steps_per_epoch


def compile_for_split(
    function: Any, params: Params, task: Task, split: str, mesh: Mesh, *options: Any
) -> None:
    """Compile `function(params, batch, *options)` for all batch shapes of a split, in parallel."""
    batches = Batches(*task.split(split), host=jax.process_index(), hosts=jax.process_count())
    compile_all(function, [(params, abstract(x, mesh), *options) for x in batches.shapes])


def mean_losses(sums: list[dict[str, Any]]) -> dict[str, float]:
    """Return mean "loss" and, if present, "accuracy", given the loss sums of all batches."""
    values = means({name: sum(float(s[name]) for s in sums) for name in sums[0]})
    return {name: values[name] for name in ("loss", "accuracy") if name in values}


class Predictor:
    """Computes `task.loss` and `task.predict` over a split; compiles once per batch shape.

    With `progress`, it shows how much of a split it has processed.
    """

    def __init__(self, task: Any, mesh: Mesh, progress: bool = False):
        self.task, self.mesh, self._progress = task, mesh, progress
        # `compiled` replicates the results on all hosts: every host scores the whole split.
        self._run = compiled(mesh, self._all, static_argnums=2)

    def _all(self, params: Params, batch: dict[str, jax.Array], attention: bool) -> BatchResult:
        predicted, weights = self.task.predict(params, batch)
        predicted.pop("probabilities", None)  # those of a large split need much memory
        sums = self.task.loss(params, batch)
        return batch["index"], sums, predicted, weights if attention else {}

    def __call__(
        self, params: Params, split: str, attended: int = 0
    ) -> tuple[dict[str, float], list[Prediction]]:
        """Return the mean losses, and the prediction of every example in the order of the corpus.

        Predictions are not cropped to the length of the example: they may include padding. The
        predictions of the first `attended` examples include attention weights.
        """
        found: dict[int, Prediction] = {}
        compile_for_split(self._run, params, self.task, split, self.mesh, attended > 0)
        batches = split_batches(self.task, split, self.mesh)
        results = dispatched((self._run(params, x, attended > 0) for x in batches), ahead=1)
        number = count_batches(self.task, split)
        shown = show_progress(results, number, "batches", self._progress)
        sums = [_collect(result, found, attended) for result in shown]
        return mean_losses(sums), [found[i] for i in range(len(found))]


def _collect(
    result: BatchResult, found: dict[int, Prediction], attended: int
) -> dict[str, np.ndarray]:
    """Add the predictions of a batch to `found`; return the loss sums of the batch.

    The attention weights of a large split are large, so only those of batches with one of the first
    `attended` examples are transferred from the devices.
    """
    *others, weights = result
    index, sums, predicted = jax.device_get(others)
    if np.any((index >= 0) & (index < attended)):
        weights = jax.device_get(weights)
    for row, i in enumerate(index.tolist()):
        if i >= 0:
            found[i] = {name: values[row] for name, values in predicted.items()}
        if 0 <= i < attended:  # copy the rows, so that the arrays of the batch can be freed
            found[i] |= {name: values[row].copy() for name, values in weights.items()}
    return sums


def make_evaluate(
    task: Any, mesh: Mesh, describe: Callable[[str, list[Prediction], int], Evaluation]
) -> Evaluate:
    """Return the function that scores the validation split during training.

    `describe(split, predictions, count)` returns additional scores and at most `count` samples
    (predictions as text).
    """
    predictor = Predictor(task, mesh)

    def evaluate(params: Params) -> Evaluation:
        losses, predictions = predictor(params, "valid")
        scores, samples = describe("valid", predictions, task.config.train.samples)
        return Evaluation(losses | scores, samples)

    return evaluate


def evenly(count: int, wanted: int) -> list[int]:
    """Return the indices of at most `wanted` evenly spaced examples out of `count`."""
    chosen = min(count, wanted)
    return [i * count // chosen for i in range(chosen)]
