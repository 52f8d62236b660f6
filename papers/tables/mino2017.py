"""Mino et al. 2017: encoder states split into keys and values, or weights initialized to zero."""

from papers.claims import Claim
from papers.table import Row, Table

KEYS = Table(
    title="Mino 2017: key–value attention",
    source="two claims in the abstract: split states are better than one state, and an unsplit "
    "network with some weights initialized to zero has results comparable to the split one; the "
    "paper's results were not available",
    config="mino2017",
    measures=("tokenized_bleu", "bleu", "perplexity", "aer"),
    data=("multi30k_de_en", "multi30k_en_de", "dates"),
    minutes=1.5,
    sizes=("small", "tiny"),
    claims=(
        Claim("one state as key and value", "split into key and value", "abstract"),
        Claim("zero-initialized", "split into key and value",
              'abstract: "comparable results"; the margin is ours', margin=0.5, equal=True),
    ),
    figures=("heat_maps",),
    rows=(
        Row("one state as key and value", {"keys": "none"}),
        Row("split into key and value", {"keys": "split"}),
        Row("zero-initialized", {"keys": "zero"}),
    ),
)  # fmt: skip
