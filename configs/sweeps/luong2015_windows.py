"""Luong 2015: window size D × score × alignment.

    python sweep.py --config=configs/luong2015.py:data=dates \
        --sweep=configs/sweeps/luong2015_windows.py --workdir=sweeps/windows --workers=2

The sweep has 36 points, each of which is one training run: 4 with global attention, which has no
window, and 32 with local attention. The paper always uses D = 10, and its Table 4 lists the
location score only with global attention.
"""

from collections.abc import Iterator

from configs.grid import grid

_SCORES = ("dot", "general", "concat", "location")


def points() -> Iterator[dict]:
    """Yield all combinations of alignment, score and window."""
    yield from grid(align=["global"], score=_SCORES)
    yield from grid(
        align=["local_m", "local_p"], score=_SCORES, **{"model.attention.D": [2, 5, 10, 20]}
    )
