"""SCAN: learning rate and dropout, chosen on held-out training commands.

    python sweep.py --config=configs/lake2018.py:model=bahdanau,size=small,data=scan_simple \
        --config.data.dir=path/to/scan --sweep=configs/sweeps/lake2018_recipe.py \
        --workdir=sweeps/scan --workers=4

The sweep has 9 points. They are ranked by exact match on the validation split, which is one in 20
training commands, so the test split has no part in the choice.
"""

from collections.abc import Iterator

from configs.grid import grid


def points() -> Iterator[dict]:
    """Yield all combinations of learning rate and dropout."""
    yield from grid(
        **{"optimizer.learning_rate": [0.001, 0.002, 0.005], "model.dropout": [0.0, 0.1, 0.3]}
    )
