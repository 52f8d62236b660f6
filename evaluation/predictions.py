"""Losses and predictions of whole splits, by any task that predicts without decoding."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from data.batches import Batches
from tasks.task import Params, Task
from training.devices import abstract, compile_all, compiled, put
from training.loop import Evaluate, Evaluation, means

Prediction = dict[str, np.ndarray]


def split_batches(task: Task, split: str, mesh: Mesh) -> Iterator[dict[str, jax.Array]]:
    """This host's share of a split, spread over the devices."""
    for batch in task.eval_batches(split, jax.process_index(), jax.process_count()):
        yield put(batch, mesh)


def compile_for_split(
    function: Any, params: Params, task: Task, split: str, mesh: Mesh, *options: Any
) -> None:
    """`function(params, batch, *options)` for all shapes that `split_batches` has, side by side."""
    batches = Batches(*task.split(split), host=jax.process_index(), hosts=jax.process_count())
    compile_all(function, [(params, abstract(x, mesh), *options) for x in batches.shapes])


def mean_losses(sums: list[dict[str, Any]]) -> dict[str, float]:
    """The sums of all batches as means; −log p is the loss itself, where nothing is smoothed."""
    every = jax.device_get(sums)
    values = means({name: sum(float(s[name]) for s in every) for name in every[0]})
    return {name: values[name] for name in ("loss", "accuracy") if name in values}


class Predictor:
    """`task.loss` and `task.predict` over a split; compiled once a shape, then reused."""

    def __init__(self, task: Any, mesh: Mesh):
        self.task, self.mesh = task, mesh
        # Results go to every host, for each of them scores the whole split.
        self._run = compiled(mesh, self._all, static_argnums=2)

    def _all(self, params: Params, batch: dict[str, jax.Array], attention: bool) -> tuple[Any, ...]:
        predicted, weights = self.task.predict(params, batch)
        sums = self.task.loss(params, batch)
        return batch["index"], sums, predicted, weights if attention else {}

    def __call__(
        self, params: Params, split: str, looks: int = 0
    ) -> tuple[dict[str, float], list[Prediction]]:
        """Mean losses, and the prediction of every example, with its padding, in order; with it
        the attention of the first so many."""
        found: dict[int, Prediction] = {}
        compile_for_split(self._run, params, self.task, split, self.mesh, looks > 0)
        # A batch is computed while the one before it is taken apart.
        sums, waiting = [], None
        for batch in split_batches(self.task, split, self.mesh):
            ready, waiting = waiting, self._run(params, batch, looks > 0)
            if ready is not None:
                sums.append(_take(ready, found, looks))
        sums.append(_take(waiting, found, looks))
        return mean_losses(sums), [found[i] for i in range(len(found))]


def _take(result: Any, found: dict[int, Prediction], looks: int) -> dict[str, Any]:
    """Enters the predictions of a batch in `found`; returns its sums."""
    index, sums, predicted, weights = jax.device_get(result)
    for row, i in enumerate(index.tolist()):
        if i >= 0:
            found[i] = {name: values[row] for name, values in predicted.items()}
        if 0 <= i < looks:  # a copy, or the whole batch's would stay in memory
            found[i] |= {name: values[row].copy() for name, values in weights.items()}
    return sums


def make_evaluate(
    task: Any, mesh: Mesh, describe: Callable[[str, list[Prediction], int], Evaluation]
) -> Evaluate:
    """What the trainer calls: losses of the validation split, with what `describe` makes of its
    predictions: more scores, and so many samples."""
    predictor = Predictor(task, mesh)

    def evaluate(params: Params) -> Evaluation:
        losses, predictions = predictor(params, "valid")
        scores, samples = describe("valid", predictions, task.config.train.samples)
        return Evaluation(losses | scores, samples)

    return evaluate


def evenly(count: int, wanted: int) -> range:
    """The numbers of `wanted` of `count` examples, from all over a split."""
    return range(0, count, max(1, count // max(1, wanted)))[:wanted]
