"""Cho 2014 and Bahdanau 2015: a fixed-length source vector against attention."""

from papers.claims import Claim, ranked
from papers.table import Row, Table

# Maximum length of training sentences in words. The paper uses 30 for news; the captions of
# Multi30k are shorter.
SHORT = 12


def _row(name: str, config: str, longest: int, bleu: float) -> Row:
    return Row(name, {}, {"data.max_length": longest}, {"tokenized_bleu": bleu}, config=config)


TABLE1 = Table(
    title="Bahdanau 2015, Table 1 and Figure 2: a fixed vector against attention",
    source="Table 1, WMT'14 English–French, newstest2014, all sentences, tokenized BLEU",
    config="bahdanau2015",
    measures=("tokenized_bleu", "bleu", "perplexity", "aer"),
    data=("multi30k_de_en", "multi30k_en_de", "dates"),
    minutes=1.5,
    differs="The paper's -30 models are trained on sentences of up to 30 words; the models here "
    f"are trained on up to {SHORT} words, because captions are shorter. RNNencdec is the model of "
    "Cho 2014. The paper's models have 1000 units and are trained on 348 M words; size=small has "
    "512 units, and Multi30k has 29,000 captions.",
    claims=(
        Claim("RNNencdec-50", "RNNsearch-50", "§5.1, from memory"),
        Claim(f"RNNencdec-30 (here {SHORT})", f"RNNsearch-30 (here {SHORT})", "§5.1, from memory"),
        *ranked("Table 1", f"RNNencdec-30 (here {SHORT})", "RNNencdec-50",
                f"RNNsearch-30 (here {SHORT})", "RNNsearch-50"),
    ),
    figures=("lengths", "heat_maps"),
    rows=(
        _row(f"RNNencdec-30 (here {SHORT})", "cho2014", SHORT, 13.93),
        _row("RNNencdec-50", "cho2014", 50, 17.82),
        _row(f"RNNsearch-30 (here {SHORT})", "bahdanau2015", SHORT, 21.50),
        _row("RNNsearch-50", "bahdanau2015", 50, 26.75),
    ),
)  # fmt: skip
