"""Lin et al. 2017: the number of attention hops r and the penalty on similar hops."""

from papers.claims import Claim
from papers.table import Row, Table

HOPS = Table(
    title="Lin 2017: hops, penalty, and plain pooling",
    source="Table 1, Yelp, five classes: accuracy of 64.21 % with 30 hops and 61.99 % with max "
    "pooling; plots show the effect of r and of the penalty",
    config="lin2017",
    measures=("accuracy",),
    data=("sst2", "sst5"),
    minutes=0.3,
    sizes=("small",),
    differs="The published results are for another corpus. By default, size=small has 4 hops, a "
    "BiLSTM of 150 units per direction and no pretrained word vectors.",
    claims=(
        Claim("max pooling", "r = 4, penalty .1", "Table 1"),
        Claim("r = 1", "r = 4, penalty .1", "plots of the effect of r, from memory"),
        Claim("r = 4, no penalty", "r = 4, penalty .1", "effect of the penalty, from memory"),
    ),
    figures=("heat_maps",),
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
