"""Mino et al. 2017: encoder states split into keys and values, or weights initialized to zero."""

from papers.table import Row, Table

KEYS = Table(
    title="Mino 2017: key–value attention",
    source="a claim in the text: an unsplit network with some weights initialized to zero comes "
    "close to the split one; the paper's results were not available",
    config="mino2017",
    measures=("tokenized_bleu", "bleu", "perplexity", "aer"),
    data=("multi30k_de_en", "multi30k_en_de", "dates"),
    minutes=1.5,
    sizes=("small", "tiny"),
    figures=("heat_maps",),
    rows=(
        Row("one state as key and value", {"keys": "none"}),
        Row("split into key and value", {"keys": "split"}),
        Row("zero-initialized", {"keys": "zero"}),
    ),
)
