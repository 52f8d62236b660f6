"""Luong 2015: window size D × score × alignment.

    python sweep.py --config=configs/luong2015.py:data=dates \
        --sweep=configs/sweeps/luong2015_windows.py --workdir=sweeps/windows --workers=2

36 points, because global attention has no window. The paper uses D = 10 throughout; its Table 4 has
the location score for global attention only.
"""

from collections.abc import Iterator

from configs.grid import grid

_SCORES = ("dot", "general", "concat", "location")


def points() -> Iterator[dict]:
    yield from grid(align=["global"], score=_SCORES)
    yield from grid(
        align=["local_m", "local_p"], score=_SCORES, **{"model.attention.D": [2, 5, 10, 20]}
    )
