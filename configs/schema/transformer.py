"""The Transformer (Vaswani 2017)."""

from collections.abc import Iterator

from configs.schema.common import DTYPE, dropout
from configs.schema.field import Config, Field, Fields, ModelSchema

_FIELDS: Fields = {
    "layers": Field(
        6, "Number N of layers, in the encoder and in the decoder.", least=1, most=1000
    ),
    "features": Field(512, "Width of the model, d_model.", least=1),
    "heads": Field(8, "Number of attention heads h.", least=1),
    "key_features": Field(
        0, "Width d_k of queries and keys per head; 0: features / heads.", least=0
    ),
    "feed_forward": Field(2048, "Width d_ff of the feed-forward layers.", least=1),
    "norm": Field(
        "post",
        "Layer normalization after each residual sum (post, as in the paper) or before each "
        "sublayer (pre).",
        ("post", "pre"),
    ),
    "positions": Field("sinusoidal", "Positional encodings.", ("sinusoidal", "learned")),
    "max_positions": Field(512, "For positions=learned: maximum number of positions.", least=1),
    "share_embeddings": Field(
        True,
        "Use one embedding matrix for source and target tokens; needs data.shared_vocab=True.",
    ),
    "tie_output": Field(True, "Use the target embedding matrix as the output matrix."),
    "attention_layer": Field(
        -1,
        "Decoder layer, counted from 0, whose attention weights are reported, and trained by "
        "train.guided; -1: the last layer.",
        least=-1,
    ),
    "attention_head": Field(
        -1,
        "Head of attention_layer, counted from 0, whose attention weights are reported, and "
        "trained by train.guided; -1: the mean over all heads.",
        least=-1,
    ),
    "dropout": dropout(0.1),
    "attention_dropout": Field(
        0.0, "Dropout rate of attention weights, as in Tensor2Tensor; 0: none.", least=0, below=1
    ),
    **DTYPE,
    "scan": Field(
        False,
        "Compile one layer and scan over all layers: compiles faster, but trains more slowly.",
    ),
    "remat": Field(False, "Recompute activations in the backward pass, to save memory."),
}


def _rules(config: Config) -> Iterator[str]:
    data, model = config.data, config.model
    if model.features % model.heads:
        yield (
            f"config.model.heads={model.heads} must divide config.model.features={model.features}: "
            "change one of them"
        )
    elif model.key_features > model.features // model.heads:
        yield (
            f"config.model.key_features={model.key_features} is more than the "
            f"{model.features // model.heads} features of a head: set it to a smaller number, or "
            "to 0 for all features"
        )
    if model.share_embeddings and not data.shared_vocab:
        yield (
            "config.model.share_embeddings=True needs one vocabulary for both sides: set "
            "config.data.shared_vocab=True or config.model.share_embeddings=False"
        )
    if data.reverse_source:
        yield (
            "config.data.reverse_source=True has no effect on a Transformer: set "
            "config.data.reverse_source=False"
        )
    if model.attention_layer >= model.layers:
        yield (
            f"config.model.attention_layer={model.attention_layer} is not one of the "
            f"{model.layers} layers: use 0 to {model.layers - 1}, or -1 for the last"
        )
    if model.attention_head >= model.heads:
        yield (
            f"config.model.attention_head={model.attention_head} is not one of the {model.heads} "
            f"heads: use 0 to {model.heads - 1}, or -1 for the mean over all heads"
        )
    if model.positions == "learned" and model.max_positions <= data.max_length:
        yield (
            f"config.model.max_positions={model.max_positions} is too small for sentences of "
            f"data.max_length={data.max_length} tokens and </s>: set it to at least "
            f"{data.max_length + 1}"
        )


TRANSFORMER = ModelSchema(
    name="transformer",
    task="translation",
    builder="models.transformer:make_transformer",
    fields=_FIELDS,
    rules=_rules,
    title="Transformer",
)
