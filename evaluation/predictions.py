"""Losses and predictions of whole splits, by any task that predicts without decoding."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from tasks.task import Params, Task
from training.devices import put, replicated
from training.loop import means

Prediction = dict[str, np.ndarray]


def split_batches(task: Task, split: str, mesh: Mesh) -> Iterator[dict[str, jax.Array]]:
    """This host's share of a split, spread over the devices."""
    for batch in task.eval_batches(split, jax.process_index(), jax.process_count()):
        yield put(batch, mesh)


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
        self._run = jax.jit(self._both, out_shardings=replicated(mesh))

    def _both(self, params: Params, batch: dict[str, jax.Array]) -> tuple[Any, ...]:
        return batch["index"], self.task.loss(params, batch), self.task.predict(params, batch)

    def __call__(self, params: Params, split: str) -> tuple[dict[str, float], list[Prediction]]:
        """Mean losses, and the prediction of every example, with its padding, in order."""
        found: dict[int, Prediction] = {}
        sums = []
        # One batch is computed while the one before it is taken apart.
        waiting = None
        for batch in split_batches(self.task, split, self.mesh):
            waiting, ready = self._run(params, batch), waiting
            if ready is not None:
                sums.append(self._take(ready, found))
        if waiting is not None:
            sums.append(self._take(waiting, found))
        return mean_losses(sums), [found[i] for i in range(len(found))]

    @staticmethod
    def _take(result: tuple[Any, ...], found: dict[int, Prediction]) -> dict[str, Any]:
        index, sums, predictions = jax.device_get(result)
        for row, i in enumerate(index.tolist()):
            if i >= 0:
                found[i] = {name: values[row] for name, values in predictions.items()}
        return sums
