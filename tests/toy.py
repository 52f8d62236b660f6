"""Toy task for tests of the trainer: fit a line to points. It compiles fast."""

import jax.numpy as jnp
import numpy as np

from configs.base import base_config
from training.loop import Evaluation


class Points:
    """Training batches of eight random numbers; the batch with index n depends only on n."""

    steps_per_epoch = 5
    shapes = ({"x": np.zeros(8, np.float32)},)

    def __len__(self):
        return 2**48

    def __getitem__(self, index):
        rng = np.random.default_rng(int(index))
        return {"x": rng.normal(size=8).astype(np.float32)}


class Line:
    """The task of fitting the parameters w and b so that w x + b equals 3 x − 1."""

    loss_unit = "points"

    def train_batches(self, seed, host, hosts):
        return Points()

    def init(self, key):
        return {"w": jnp.zeros(()), "b": jnp.ones(())}

    def loss(self, params, batch, key=None):
        x = batch["x"]
        error = (params["w"] * x + params["b"] - (3 * x - 1)) ** 2
        count = jnp.float32(len(x))
        return {"loss": error.sum(), "count": count, "examples": count / 2}


class Exploding(Line):
    """The task `Line`, with NaN in all batches except the first four."""

    def train_batches(self, seed, host, hosts):
        class From5(Points):
            def __getitem__(self, index):
                batch = super().__getitem__(index)
                return {"x": batch["x"] * np.float32(np.nan if index >= 4 else 1)}

        return From5()


def toy_config(**train):
    """Return a config for the toy task; keyword arguments override config.train."""
    config = base_config()
    config.optimizer.update({"name": "momentum", "learning_rate": 0.05, "clip_norm": 0.0})
    config.train.update({"steps": 20, "eval_every": 5, "log_every": 1, **train})
    return config


def constant_evaluation(*losses):
    """Return an evaluation function that returns the given losses in turn and repeats the last."""
    remaining = list(losses)

    def evaluate(params):
        loss = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return Evaluation({"loss": loss})

    return evaluate
