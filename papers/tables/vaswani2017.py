"""Vaswani et al. 2017, Table 3: variations on the Transformer."""

from papers.claims import Claim, best
from papers.table import Row, Table


def _row(name: str, variant: str, bleu: float, perplexity: float | None = None) -> Row:
    published = {"tokenized_bleu": bleu} | ({"perplexity": perplexity} if perplexity else {})
    return Row(name, {"variant": variant, "norm": "pre"}, {}, published, checkpoint="average")


# The table contains only variations that are also meaningful for size=small, which has 4 heads and
# 4 layers.
TABLE3 = Table(
    title="Vaswani 2017, Table 3: variations on the Transformer",
    source="Table 3, English–German, newstest2013 (dev), BLEU",
    config="vaswani2017",
    measures=("tokenized_bleu", "bleu", "perplexity", "aer"),
    data=("multi30k_bpe_de_en", "multi30k_bpe_en_de", "dates"),
    minutes=3.0,
    sizes=("small", "paper"),
    differs="The paper's base model has 6 layers of 512 units and 8 heads, and its perplexity is "
    "per subword; size=small has 4 layers of 128 units and 4 heads, is pre-norm, and is trained on "
    "29,000 captions.",
    claims=(
        *best("Table 3", "base", "N = 2", "no dropout", "h = 1", "no label smoothing"),
        Claim("learned positions", "base", '§6.2: "nearly identical results" (from memory); the '
              "margin is ours", margin=0.5, equal=True),
    ),
    rows=(
        _row("N = 2", "N2", 23.7),
        _row("no dropout", "no_dropout", 24.6),
        _row("h = 1", "h1", 24.9),
        _row("no label smoothing", "no_smoothing", 25.3),
        _row("learned positions", "learned", 25.7),
        _row("base", "none", 25.8, 4.92),
    ),
)  # fmt: skip
