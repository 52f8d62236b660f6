"""Cui et al. 2017: attention over attention against the attention sum."""

from papers.table import Row, Table

READERS = Table(
    title="Cui 2017: attention over attention against the attention sum",
    source="Table 3, the Children's Book Test: 72.0 % right of names, 69.4 % of nouns, both above "
    "the attention-sum reader",
    config="cui2017",
    measures=("accuracy",),
    data=("novels_ne", "novels_cn", "cbt_ne", "cbt_cn"),
    minutes=1.0,
    sizes=("small", "paper"),
    differs="The novels' questions are a tenth of that corpus' number, and other books.",
    claims=(("attention sum", "attention over attention"),),
    figures=("heat_maps",),
    remarks={
        "novels_ne": "The candidate that the passage names most often is right in 32.2 %, so the "
        "attention-sum reader has not learnt to read in these 850 steps. It may be because it asks "
        "with the last states of the query alone, and names have ids that each question draws anew "
        "(configs/cui2017.py), so that the blank must be remembered to the query's end; attention "
        "over attention gives most of its weights β to the blank itself. (In the pictures, of one "
        "question, it is the attention sum that happens to be right.)"
    },
    rows=(
        Row("attention sum", {"reader": "attention_sum"}),
        Row("attention over attention"),
    ),
)
