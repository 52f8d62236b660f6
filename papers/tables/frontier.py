"""All translation architectures at equal budgets: tokens, operations and device time."""

from papers.frontier import Frontier
from papers.table import Row, Table
from papers.tables.multi30k import BEAM

_BIDIRECTIONAL = {"encoder": "bidirectional"}

FRONTIER = Frontier(
    Table(
        title="Translation architectures at equal budgets",
        source="our comparison; it has no published results",
        config="luong2015",
        measures=("tokenized_bleu",),
        data=("multi30k_de_en", "multi30k_en_de", "dates"),
        sizes=("small", "tiny"),
        minutes=1.5,
        rows=(
            Row("Sutskever 2014", config="sutskever2014", decode=BEAM),
            Row("Cho 2014", config="cho2014", decode=BEAM),
            Row("Bahdanau 2015", config="bahdanau2015", decode=BEAM),
            Row("Luong 2015 global", _BIDIRECTIONAL, decode=BEAM),
            Row("Luong 2015 local-p", {**_BIDIRECTIONAL, "align": "local_p"}, decode=BEAM),
            Row("Xu 2015 hard", {"attention": "hard"}, config="xu2015", decode=BEAM),
            Row("Deng 2018 marginal", {**_BIDIRECTIONAL, "align": "marginal", "feed": "no"},
                decode=BEAM),
            Row("Mino 2017", {**_BIDIRECTIONAL, "keys": "split"}, config="mino2017", decode=BEAM),
            Row("Transformer", {"norm": "pre"}, config="vaswani2017", decode=BEAM),
        ),
    ),
    reference="Luong 2015 global",
    lengths=(0.5, 1.0, 2.0),
    rates=(0.5, 1.0, 2.0),
    dropouts=(0.3, 0.5),
)  # fmt: skip
