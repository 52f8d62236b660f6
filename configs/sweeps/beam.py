"""Beam width and length penalty, for any translator.

    python sweep.py --config=configs/luong2015.py:data=dates \
        --sweep=configs/sweeps/beam.py --workdir=sweeps/beam --workers=2

A run each: the width under which the dev split is translated decides which checkpoint is the best.
For widths of one trained model, `eval.py --beams=1,2,5,12` takes a minute.
"""

from collections.abc import Iterator

from configs.grid import grid


def points() -> Iterator[dict]:
    yield {"decode.beam": 1}
    widths, penalties = [2, 5, 12], ["none", "gnmt", "average"]
    yield from grid(**{"decode.beam": widths, "decode.length_penalty": penalties})
