"""Mino et al. 2017: keys and values split, or a part of the weights started at zero."""

from papers.table import Row, Table

KEYS = Table(
    title="Mino 2017: key–value attention",
    source="in words: an unsplit network with zero-started weights comes close to the split one; "
    "its figures were not at hand",
    config="mino2017",
    measures=("tokenised_bleu", "bleu", "perplexity", "aer"),
    data=("multi30k_de_en", "multi30k_en_de", "dates"),
    minutes=1.5,
    sizes=("small", "tiny"),
    figures=("heat_maps",),
    rows=(
        Row("one state for both (none)", {"keys": "none"}),
        Row("split", {"keys": "split"}),
        Row("zero-started", {"keys": "zero"}),
    ),
)
