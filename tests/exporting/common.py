"""Models with random parameters, for tests of exports."""

import jax
import numpy as np

from tasks.registry import make_task
from tests.evaluation.test_every_model import CONFIGS, make
from tests.small import TASKS, small_config
from training.restore import RestoredRun

EVERY_MODEL = [*CONFIGS, *TASKS]


def any_task(name, cache, folder):
    """Return the task of a translation model, or a small task of another kind."""
    return make(name, cache) if name in CONFIGS else make_task(small_config(name, folder))


def random_run(task, seed=0):
    """Return a run with random parameters, which needs no compilation."""
    rng = np.random.default_rng(seed)

    def draw(x):
        spread = 0.3 if len(x.shape) > 1 else 0.1
        return rng.normal(0, spread, x.shape).astype(np.float32)

    shapes = jax.eval_shape(task.init, jax.random.key(0))
    return RestoredRun(task, jax.tree.map(draw, shapes), [3, 7])


def assert_equal_params(params, expected):
    """Check that two trees have the same structure, dtypes and bits."""
    assert jax.tree.structure(params) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(params), jax.tree.leaves(expected), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
