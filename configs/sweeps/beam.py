"""Beam width and length penalty, for any translator.

    python sweep.py --config=configs/luong2015.py:data=dates \
        --sweep=configs/sweeps/beam.py --workdir=sweeps/beam --workers=2

A run each, all of the same steps, whose dev split is translated by the width: so it also says which
checkpoint is best. For widths of one trained model, `eval.py --beams=1,2,5,12` takes a minute.
"""

from collections.abc import Iterator

from configs.grid import grid


def points() -> Iterator[dict]:
    searched = {"train.eval_greedily": [False], "decode.beam": [2, 5, 12]}
    yield {"decode.beam": 1}
    yield from grid(**searched, **{"decode.length_penalty": ["none", "gnmt", "average"]})
