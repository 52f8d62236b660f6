"""Sutskever 2014: depth of the stacks, and whether the source is read from its end.

    python sweep.py --config=configs/sutskever2014.py:data=dates \
        --sweep=configs/sweeps/sutskever2014_depth.py --workdir=sweeps/depth --workers=2

In the paper each further of 4 layers lowers perplexity by nearly 10 % (§3.4), and reversal makes
30.59 BLEU of 26.17 (Table 1).
"""

from collections.abc import Iterator


def points() -> Iterator[dict]:
    for reverse in ("yes", "no"):
        for layers in (1, 2, 4):
            yield {
                "name": f"{layers} layers, {'reversed' if reverse == 'yes' else 'as written'}",
                "reverse": reverse,
                "model.encoder.layers": layers,
                "model.decoder.layers": layers,
            }
