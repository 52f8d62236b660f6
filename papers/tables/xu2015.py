"""Xu 2015 and Deng 2018: soft, hard and marginal attention in the same decoders."""

from papers.claims import ranked
from papers.table import Row, Table

_AFTER = {"feed": "no"}  # attention after the recurrent step, without input feeding

TABLE = Table(
    title="Xu 2015: soft, hard and marginal attention",
    source="Deng et al. 2018 (Latent Alignment and Variational Attention), IWSLT'14 German–"
    "English, BLEU, quoted from memory; hard attention by sampling with a soft-attention baseline",
    config="luong2015",
    measures=("tokenized_bleu", "bleu", "perplexity", "effective", "largest"),
    data=("multi30k_de_en", "multi30k_en_de", "dates"),
    minutes=2.5,
    sizes=("small",),
    differs="Xu et al. measure soft and hard attention on image captions, and report no score for "
    "translation. Deng et al. train models with input feeding on 160,000 sentences of talks; here, "
    "marginal attention has no input feeding.",
    claims=ranked(
        "Deng et al. 2018, from memory", "without input feeding, hard",
        "without input feeding, soft", "without input feeding, marginal",
    ),
    rows=(  # p-values compare each row with the row above
        Row("Bahdanau decoder, hard", {"attention": "hard"}, config="xu2015"),
        Row("Bahdanau decoder, soft", {"attention": "soft"}, config="xu2015"),
        Row("Luong decoder, hard", {"align": "hard"}),
        Row("Luong decoder, soft", {}),
        Row("without input feeding, hard", {**_AFTER, "align": "hard"}, {},
            {"tokenized_bleu": 31.0}),
        Row("without input feeding, soft", _AFTER, {}, {"tokenized_bleu": 32.8}),
        Row("without input feeding, marginal", {**_AFTER, "align": "marginal"}, {},
            {"tokenized_bleu": 33.3}),
    ),
)  # fmt: skip
