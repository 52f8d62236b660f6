"""Vaswani 2017, Table 3: base and what its rows change.

    python sweep.py --config=configs/vaswani2017.py:size=paper,data=wmt14_en_de \
        --sweep=configs/sweeps/vaswani2017_table3.py --workdir=sweeps/table3

Each is days of a GPU; with size=small and data=multi30k_bpe_en_de it is minutes, but for rows whose
sizes do not fit the smaller model.
"""

from collections.abc import Iterator

from configs.vaswani2017 import VARIANTS


def points() -> Iterator[dict]:
    for variant in ("none", *VARIANTS):
        yield {"name": "base" if variant == "none" else variant, "variant": variant}
