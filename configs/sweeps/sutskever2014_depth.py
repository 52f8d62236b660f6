"""Sutskever 2014: number of layers, with and without reversing the source.

    python sweep.py --config=configs/sutskever2014.py:data=dates \
        --sweep=configs/sweeps/sutskever2014_depth.py --workdir=sweeps/depth --workers=2

In the paper, each additional layer, up to 4, reduces perplexity by nearly 10 % (§3.4), and
reversing the source raises BLEU from 26.17 to 30.59 (Table 1).
"""

from collections.abc import Iterator


def points() -> Iterator[dict]:
    """Yield 1, 2 and 4 layers, with and without reversing the source."""
    for reverse in ("yes", "no"):
        for layers in (1, 2, 4):
            yield {
                "name": f"{layers} layers, {'reversed' if reverse == 'yes' else 'as written'}",
                "reverse": reverse,
                "model.encoder.layers": layers,
                "model.decoder.layers": layers,
            }
