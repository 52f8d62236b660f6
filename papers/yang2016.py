"""Yang et al. 2016: hierarchical attention against models that read a document flat."""

from papers.table import Row, Table

FLAT = Table(
    title="Yang 2016: hierarchical attention against flat models",
    source="an LSTM of Dai & Le 2015 on the same corpus. Yang 2016 has HAN above the flat models "
    "of its Table 2 on six others (49.4 % right of IMDB's ten ratings)",
    config="lin2017",
    measures=("error",),
    data=("imdb",),
    minutes=1.0,
    same_data=True,
    sizes=("small",),
    differs="Flat models read the first 400 words, HAN the first 40 sentences of 60 words.",
    claims=(("BiLSTM, last state", "HAN"),),
    figures=("heat_maps",),
    remarks={
        "imdb": "Reading in two levels is worth more than the attention of one, from two thirds of "
        "the texts and of the parameters. HAN reads further, too: 40 sentences may have far more "
        "than 400 words, so not all of its gain need be its structure's."
    },
    rows=(
        Row("BiLSTM, last state", {"pooling": "last"}, {}, {"error": 13.5}),
        Row("BiLSTM, mean", {"pooling": "mean"}),
        Row("BiLSTM, attention", {"pooling": "attention"}),
        Row("HAN", config="yang2016"),
    ),
)
