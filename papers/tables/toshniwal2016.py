"""Toshniwal & Livescu 2016: global against local attention on CMUdict (spelling to phonemes)."""

from papers.claims import Claim, ranked
from papers.table import Row, Table
from papers.tables.luong2015 import AS_PUBLISHED


def _row(align: str, per: float, wer: float) -> Row:
    name, figures = align.replace("_", "-"), {"per": per, "wer": wer}
    return Row(name, {"align": align}, AS_PUBLISHED[align], figures)


CMUDICT = Table(
    title="Global, local-m and local-p attention on CMUdict",
    source="Toshniwal & Livescu 2016, the same 12,000 test words of CMUdict (word error rates of "
    "the single models are cited from memory); the Transformer's 20.6 is quoted for this split "
    "without a source (the README of cmusphinx/g2p-seq2seq reports 20.2)",
    config="toshniwal2016",
    measures=("wer", "per"),
    data=("cmudict",),
    minutes=3.0,
    same_data=True,
    sizes=("small",),
    seeds=5,
    differs="As in the paper, a word is correct if it matches any of its listed pronunciations. "
    "Local attention is that of Luong et al. (model.attention.clamp=False, train.diagonal=0).",
    claims=(
        *ranked("word error rates, from memory", "local-p", "global", "local-m"),
        Claim("global", "ensemble, global", "word error rates, from memory"),
    ),
    rows=(
        _row("local_p", 5.39, 22.83),
        _row("global", 5.04, 21.69),
        _row("local_m", 5.11, 21.39),
        Row("ensemble, global", {"align": "global"}, {}, {"per": 4.69, "wer": 20.24},
            ensemble=True),
        Row("Transformer", {"norm": "pre"}, {}, {"wer": 20.6},
            config="vaswani2017", checkpoint="average"),
    ),
)  # fmt: skip
