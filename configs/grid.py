"""Grids of values for sweeps."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from errors import UserError


def grid(**values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield one point (the settings of one run) per combination of values.

    Names that contain a dot are passed with `**`.

    >>> list(grid(score=["dot", "concat"], **{"model.attention.D": [5]}))
    [{'score': 'dot', 'model.attention.D': 5}, {'score': 'concat', 'model.attention.D': 5}]
    """
    for name, several in values.items():
        if isinstance(several, str):
            raise UserError(
                f"grid({name}={several!r}): pass a list of values, such as [{several!r}]"
            )
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))
