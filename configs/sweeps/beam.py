"""Beam width and length penalty, for any translation model.

    python sweep.py --config=configs/luong2015.py:data=dates \
        --sweep=configs/sweeps/beam.py --workdir=sweeps/beam --workers=2

Each point of the sweep is one training run, which uses the point's settings to decode the
validation split. The settings therefore also affect which checkpoint is the best. To compare beam
widths for one trained model, use `eval.py --beams=1,2,5,12`.
"""

from collections.abc import Iterator

from configs.grid import grid


def points() -> Iterator[dict]:
    """Yield greedy decoding, and all combinations of beam width and length penalty."""
    searched = {"train.eval_greedily": [False], "decode.beam": [2, 5, 12]}
    yield {"decode.beam": 1}
    yield from grid(**searched, **{"decode.length_penalty": ["none", "gnmt", "average"]})
