"""Lin et al. 2017: hops r and the penalty that keeps them apart."""

from papers.table import Row, Table

HOPS = Table(
    title="Lin 2017: hops, penalty, and plain pooling",
    source="Table 1, Yelp, five classes: 64.21 % right with 30 hops, 61.99 by max pooling; the "
    "effect of r and of the penalty is in plots",
    config="lin2017",
    measures=("accuracy",),
    data=("sst2", "sst5"),
    minutes=0.3,
    sizes=("small",),
    differs="The published figures are of another corpus; size=small has 4 hops by itself, a "
    "BiLSTM of 150 a direction and no pretrained vectors.",
    claims=(("max pooling", "r = 4, penalty .1"),),
    figures=("heat_maps",),
    remarks={
        "sst2": "All pool about as well, and one hop is enough: it may be that of a sentence of 19 "
        "words any mean keeps what matters, where reviews on Yelp are far longer, and that 6,920 "
        "sentences teach the vectors of words, which start at random, too little for more. Without "
        "a penalty the hops read alike, and widely; .1 parts them, as the pictures show, and costs "
        "nothing; 1 sends each to a word of its own, whatever it means, and costs four points.",
        "sst5": "As with two classes, all pool about as well, and the gain over max pooling is "
        "within the noise. A penalty of 1 costs ten points here; the pictures do not say why, for "
        "with .1 each hop reads one word already.",
    },
    rows=(
        Row("mean pooling", {"pooling": "mean"}),
        Row("max pooling", {"pooling": "max"}),
        Row("r = 1", {}, {"model.hops": 1, "train.penalty": 0.0}),
        Row("r = 4, no penalty", {}, {"train.penalty": 0.0}),
        Row("r = 4, penalty .1", {}),
        Row("r = 4, penalty 1", {}, {"train.penalty": 1.0}),
        Row("r = 16, penalty .1", {}, {"model.hops": 16}),
    ),
)  # fmt: skip
