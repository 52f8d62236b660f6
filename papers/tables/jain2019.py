"""Jain & Wallace 2019, Wiegreffe & Pinter 2019: do attention weights explain predictions?"""

from papers.table import Row, Table
from papers.tables.luong2015 import BIDIRECTIONAL

_SOURCE = (
    "no numbers that can be compared, but two claims about classifiers in the abstract of Jain & "
    "Wallace 2019: their attention weights are often uncorrelated with gradients, and very "
    "different weights give the same predictions. Wiegreffe & Pinter 2019 reply that what counts "
    "is whether a model needs its attention, and test this with uniform weights"
)
_DIFFERS = (
    "docs/faithfulness.md defines the measures. Jain & Wallace search for adversarial weights with "
    "gradients; here they are the best of 35 candidates."
)
_FAITHFULNESS = (
    "drop_attention", "drop_gradient", "drop_random", "tau_gradient", "tau_removal",
    "permuted_changed", "uniform_changed", "adversarial_jsd", "largest_jsd",
)  # fmt: skip
_EXAMPLES = 200  # number of test examples per run

# The models of luong2015.table6, which measures their alignment error.
TRANSLATION = Table(
    title="Does attention explain? Translation",
    source=_SOURCE,
    config="luong2015",
    measures=(*_FAITHFULNESS, "effective", "largest", "tokenized_bleu"),
    data=("multi30k_de_en", "multi30k_en_de", "dates"),
    minutes=2.5,
    sizes=("small",),
    differs=_DIFFERS,
    faithfulness=_EXAMPLES,
    rows=(
        Row("global (location)", {"score": "location"}, BIDIRECTIONAL),
        Row("global (dot)", {"score": "dot"}, BIDIRECTIONAL),
        Row("global (general)", {"score": "general"}, BIDIRECTIONAL),
        Row("global (concat)", {"score": "concat"}, BIDIRECTIONAL),
        Row("local-m (general)", {"align": "local_m"}, BIDIRECTIONAL),
        Row("local-p (general)", {"align": "local_p"}, BIDIRECTIONAL),
        Row("Bahdanau 2015", config="bahdanau2015"),
        Row("Xu 2015, soft", {"attention": "soft"}, config="xu2015"),
        Row("Xu 2015, hard", {"attention": "hard"}, config="xu2015"),
        Row("marginal (dot)", {"align": "marginal", "score": "dot", "feed": "no"}, BIDIRECTIONAL),
        Row("Mino 2017, split", {"keys": "split"}, BIDIRECTIONAL, config="mino2017"),
        Row("Transformer, last layer", {"norm": "pre"}, config="vaswani2017"),
    ),
)
CLASSIFICATION = Table(
    title="Does attention explain? Classification",
    source=_SOURCE,
    config="lin2017",
    measures=(*_FAITHFULNESS, "effective_tokens", "largest_weight", "accuracy"),
    data=("sst2", "imdb"),
    minutes=1.0,
    sizes=("small", "tiny"),
    differs=_DIFFERS,
    faithfulness=_EXAMPLES,
    rows=(
        Row("Lin 2017, one hop", {}, {"model.hops": 1, "train.penalty": 0.0}),
        Row("Lin 2017, four hops"),
        Row("Yang 2016 (HAN)", config="yang2016"),
    ),
)
READING = Table(
    title="Does attention explain? Cloze questions",
    source=_SOURCE,
    config="cui2017",
    measures=(*_FAITHFULNESS, "effective_tokens", "largest_weight", "accuracy"),
    data=("novels_ne", "novels_cn", "cbt_ne", "cbt_cn"),
    minutes=1.0,
    sizes=("small", "tiny"),
    differs=_DIFFERS,
    faithfulness=_EXAMPLES,
    rows=(
        Row("attention sum", {"reader": "attention_sum"}),
        Row("attention over attention"),
    ),
)
