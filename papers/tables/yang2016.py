"""Yang et al. 2016: hierarchical attention (HAN) against flat document models."""

from papers.claims import best
from papers.table import Row, Table

FLAT = Table(
    title="Yang 2016: hierarchical attention against flat models",
    source="an LSTM of Dai & Le 2015 on the same corpus. In Table 2 of Yang 2016, HAN is better "
    "than the flat models on six other corpora (accuracy of 49.4 % on IMDB's ten ratings)",
    config="lin2017",
    measures=("error",),
    data=("imdb",),
    minutes=1.0,
    same_data=True,
    sizes=("small",),
    differs="Flat models read the first 400 words of a document. HAN reads the first 40 sentences, "
    "and the first 60 words of each.",
    claims=best("Table 2, on other corpora", "HAN", "BiLSTM, last state", "BiLSTM, mean"),
    figures=("heat_maps",),
    rows=(
        Row("BiLSTM, last state", {"pooling": "last"}, {}, {"error": 13.5}),
        Row("BiLSTM, mean", {"pooling": "mean"}),
        Row("BiLSTM, attention", {"pooling": "attention"}),
        Row("HAN", config="yang2016"),
    ),
)
