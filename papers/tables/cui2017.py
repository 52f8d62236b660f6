"""Cui et al. 2017: attention over attention against the attention sum."""

from papers.claims import Claim
from papers.table import Row, Table

READERS = Table(
    title="Cui 2017: attention over attention against the attention sum",
    source="Table 3, Children's Book Test: accuracy of 72.0 % on named entities and 69.4 % on "
    "common nouns, both above the attention-sum reader",
    config="cui2017",
    measures=("accuracy",),
    data=("novels_ne", "novels_cn", "cbt_ne", "cbt_cn"),
    minutes=1.0,
    sizes=("small", "paper"),
    differs="The novels corpus has one tenth as many questions as the Children's Book Test, and "
    "they are from other books.",
    claims=(Claim("attention sum", "attention over attention", "Table 3"),),
    figures=("heat_maps",),
    rows=(
        Row("attention sum", {"reader": "attention_sum"}),
        Row("attention over attention"),
    ),
)
