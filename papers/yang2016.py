"""Yang et al. 2016: hierarchical attention against models that read a document flat."""

from papers.table import Row, Table

FLAT = Table(
    title="Yang 2016: hierarchical attention against flat models",
    source="Table 2 of the paper has HAN above all flat models on six corpora (IMDB's ten ratings: "
    "49.4 % right); an LSTM has 13.50 % wrong on the two labels here (Dai & Le 2015)",
    config="lin2017",
    measures=("error",),
    data=("imdb", "imdb_rating"),
    minutes=4.0,
    sizes=("small",),
    differs="Flat models read the first 400 words, HAN the first 40 sentences of 60 words.",
    claims=tuple(
        (name, "HAN") for name in ("BiLSTM, last state", "BiLSTM, mean", "BiLSTM, attention")
    ),
    rows=(
        Row("BiLSTM, last state", {"pooling": "last"}, {}, {"error": 13.5}),
        Row("BiLSTM, mean", {"pooling": "mean"}),
        Row("BiLSTM, attention", {"pooling": "attention"}),
        Row("HAN", config="yang2016"),
    ),
)
