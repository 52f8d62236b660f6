"""Multi30k: comparison with published results of other implementations."""

from papers.claims import ranked
from papers.table import FieldValue, Row, Table
from papers.tables.luong2015 import BIDIRECTIONAL

BEAM = {"beam": 5, "length_penalty": "average", "alpha": 1.0}
# One vocabulary of 10,000 subwords for both languages.
_SUBWORDS: dict[str, FieldValue] = {"data.shared_vocab": True, "data.source_vocab.kind": "bpe"}


def _from_english(
    language: str, data: str, bleu: float, source: str, differs: str,
    changes: dict[str, FieldValue], transformer: dict[str, FieldValue],
) -> Table:  # fmt: skip
    """Return the table of one target language; `bleu` is the Transformer's published BLEU.

    `changes` are those of all rows, and `transformer` are further changes of the Transformer.
    """
    return Table(
        title=f"Multi30k, English to {language}, byte-pair encoding",
        source=f"{source}, test2016, tokenized lowercased BLEU, beam 5",
        config="luong2015",
        measures=("tokenized_bleu", "bleu", "perplexity"),
        data=(data,),
        minutes=1.7,
        same_data=True,
        sizes=("small",),
        differs=differs,
        figures=("lengths",),
        rows=(
            Row("Luong 2015, global (general), bidirectional encoder", {},
                BIDIRECTIONAL | changes, decode=BEAM),
            Row("Bahdanau 2015", {}, changes, config="bahdanau2015", decode=BEAM),
            Row("Transformer", {"norm": "pre"}, changes | transformer, {"tokenized_bleu": bleu},
                config="vaswani2017", checkpoint="average"),
        ),
    )  # fmt: skip


GERMAN = _from_english(
    "German",
    "multi30k_bpe_en_de",
    41.02,
    "Transformer-Tiny of LividWo/Revisit-MMT",
    "The text and its segmentation are the same.",
    {},
    {},
)
FRENCH = _from_english(
    "French",
    "multi30k_en_fr",
    61.80,
    "Transformer-Tiny of Wu et al. 2021 (LividWo/Revisit-MMT), quoted from memory",
    "The sentences are the same, but their tokenization and their subwords are not those of the "
    "publication.",
    _SUBWORDS,
    {"model.share_embeddings": True},
)
ENGLISH = Table(
    title="Multi30k, German to English, words",
    source="a popular tutorial series (bentrevett's pytorch-seq2seq), test2016, BLEU with the "
    "tutorial's tokenization",
    config="luong2015",
    measures=("tokenized_bleu", "bleu", "perplexity"),
    data=("multi30k_de_en",),
    minutes=2.0,
    same_data=True,
    sizes=("small",),
    claims=ranked("the tutorial", "LSTM seq2seq", "GRU encoder–decoder", "Bahdanau", "Transformer"),
    differs="Model sizes, recipes and the tokenization for BLEU differ from the tutorial's.",
    rows=(
        Row("LSTM seq2seq", {}, {}, {"tokenized_bleu": 13.76}, config="sutskever2014"),
        Row("GRU encoder–decoder", {}, {}, {"tokenized_bleu": 20.61}, config="cho2014"),
        Row("Bahdanau", {}, {}, {"tokenized_bleu": 28.30}, config="bahdanau2015"),
        Row("Luong, global (general)"),
        Row("Transformer", {"norm": "pre"}, {}, {"tokenized_bleu": 36.52},
            config="vaswani2017", decode={"beam": 1}),
    ),
)  # fmt: skip
