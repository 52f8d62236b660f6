"""Vaswani 2017, Table 3: the base model and its variations.

    python sweep.py --config=configs/vaswani2017.py:size=paper,data=wmt14_en_de \
        --sweep=configs/sweeps/vaswani2017_table3.py --workdir=sweeps/table3

For a smaller experiment, use size=small and data=multi30k_bpe_en_de. The variations h4, dk32 and N4
then equal the base model.
"""

from collections.abc import Iterator

from configs.vaswani2017 import VARIANTS


def points() -> Iterator[dict]:
    """Yield the base model and every variation."""
    for variant in ("none", *VARIANTS):
        yield {"name": "base" if variant == "none" else variant, "variant": variant}
