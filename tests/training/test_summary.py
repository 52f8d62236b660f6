"""The summary of a model."""

import jax
import pytest

from tasks.registry import make_task
from tests.small import small_config
from training.model_summary import summarize


def rows(text):
    """Return the rows of all tables of a summary, as cells by their first cell."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in cells}


def test_the_operations_of_one_product_are_known(tmp_path, mesh):
    """A windowed MLP has convolutions, which are not counted, and one product with `output`."""
    config = small_config("classes", tmp_path)
    task = make_task(config)
    table = rows(summarize(task, config, mesh))
    # One product [8 rows × 12 steps, 3 features] · [3, classes] per batch, in two batches for 9
    # sequences of 12 time steps.
    classes = len(task.prepared.vocabularies["label"])
    flops = 2 * (2 * 8 * 12 * 3 * classes) / (9 * 12)
    assert table["output"] == ["", str(3 * classes + classes), f"{flops:.3g} FLOPs"]
    assert table["kernel"][0] == f"3 × {classes}"
    assert table["forward pass, per time step"] == [f"{flops:.3g} FLOPs"]
    assert table["parameters"][0] == f"{4 * int(table['total'][1])} B"


@pytest.mark.parametrize("scan", [pytest.param(False, marks=pytest.mark.slow), True])
def test_modules_of_a_transformer_have_operations(transformer_task, mesh, scan):
    config = transformer_task.config.copy_and_resolve_references()
    config.model.scan, config.model.layers = scan, 2
    config.data.buckets = 1
    task = type(transformer_task)(config)
    table = rows(summarize(task, config, mesh))
    for name in ("decoder", "encoder"):
        assert table[f"{name}/stacked" if scan else name][2].endswith("FLOPs")
    assert table["feed_forward"][2].endswith("FLOPs")
    shapes = jax.eval_shape(task.init, jax.random.key(0))
    total = sum(x.size for x in jax.tree.leaves(shapes))
    assert table["total"][1] == f"{total:,}"
    assert "(loss)" in table
