"""Sutskever, Vinyals & Le 2014: source reversal and beam width (Table 1), depth (§3.4)."""

from papers.claims import Claim, ranked
from papers.table import Row, Table

_MEASURES = ("tokenized_bleu", "bleu", "perplexity")
_DATA = ("multi30k_de_en", "multi30k_en_de", "dates")
_SIZE = (
    "The paper's models have 4 layers of 1000 units and are trained on 12 M sentences; size=small "
    "has 2 layers of 512 units, and Multi30k has 29,000 captions."
)


def _row(name: str, beam: int, bleu: float, reverse: str = "yes", ensemble: bool = False) -> Row:
    published = {"tokenized_bleu": bleu}
    if not ensemble:
        published["perplexity"] = 4.7 if reverse == "yes" else 5.8
    return Row(
        f"{name}, beam {beam}", {"reverse": reverse}, published=published,
        decode={"beam": beam}, ensemble=ensemble,
    )  # fmt: skip


TABLE1 = Table(
    title="Sutskever 2014, Table 1: reversal, ensemble and beam width",
    source="Table 1 and §3.3, WMT'14 English–French, ntst14, tokenized BLEU",
    config="sutskever2014",
    measures=_MEASURES,
    data=_DATA,
    minutes=1.5,
    seeds=5,
    differs=_SIZE,
    claims=(
        *ranked("Table 1", "forward, beam 12", "reversed, beam 12", "ensemble, beam 1",
                "ensemble, beam 2", "ensemble, beam 12"),
        Claim("forward, beam 12", "reversed, beam 12", "§3.3", "perplexity"),
    ),
    figures=("lengths",),
    rows=(
        _row("forward", 12, 26.17, reverse="no"),
        _row("reversed", 12, 30.59),
        _row("ensemble", 1, 33.00, ensemble=True),
        _row("ensemble", 2, 34.50, ensemble=True),
        _row("ensemble", 12, 34.81, ensemble=True),
    ),
)  # fmt: skip


def _deep(layers: int) -> Row:
    name = f"{layers} layer{'s' * (layers > 1)}"
    return Row(name, {}, {"model.encoder.layers": layers, "model.decoder.layers": layers})


DEPTH = Table(
    title="Sutskever 2014, §3.4: depth",
    source="§3.4, a claim in the text: each additional layer lowers the perplexity by nearly 10 %",
    config="sutskever2014",
    measures=("perplexity", "tokenized_bleu", "bleu"),
    data=_DATA,
    minutes=1.5,
    differs=_SIZE,
    claims=ranked("§3.4", "1 layer", "2 layers", "3 layers", "4 layers"),
    rows=(_deep(1), _deep(2), _deep(3), _deep(4)),
)
