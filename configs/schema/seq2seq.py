"""Recurrent encoder–decoders: Sutskever, Cho, Bahdanau, Luong, Xu and Mino."""

from collections.abc import Iterator

from configs.schema.common import CELL_NAMES, dropout, weights
from configs.schema.field import Config, Field, Fields, ModelSchema


def _stack(side: str) -> Fields:
    return {
        "cell": Field("lstm", f"Recurrent cell of the {side}.", CELL_NAMES),
        "layers": Field(2, "Recurrent layers.", least=1),
        "features": Field(512, "Width of a layer, in each direction.", least=1),
        "embedding": Field(512, "Width of the token embeddings.", least=1),
        "residual": Field(False, "Residual connections from the second layer on."),
    }


_ATTENTION: Fields = {
    "align": Field(
        "global",
        "Alignment: which source positions count, and how scores become weights.",
        ("none", "global", "local_m", "local_p", "hard"),
    ),
    "score": Field(
        "general",
        "Score that compares a decoder state with source positions.",
        ("dot", "scaled_dot", "general", "concat", "location"),
    ),
    "input_feeding": Field(
        True, "For decoder.type=luong: feed the attentional state into the next time step."
    ),
    "max_source": Field(64, "For location: source positions that can be scored.", least=1),
    "D": Field(10, "For local_m and local_p: the window is [p_t − D, p_t + D].", least=1),
    "sigma": Field(
        0.0, "For local_p: standard deviation of the Gaussian; 0: D/2, as in the paper.", least=0
    ),
    "renormalize": Field(False, "For local_p: divide the weights by their sum after the Gaussian."),
    "key_value": Field(
        "none",
        "Mino 2017: split encoder states into keys and values, or start part of the score's "
        "matrix at zero.",
        ("none", "split", "zero"),
    ),
}

_FIELDS: Fields = {
    "encoder": {
        **_stack("encoder"),
        "bidirectional": Field(False, "Read the source in both directions."),
    },
    "decoder": {
        "type": Field(
            "luong",
            "Where the context enters: after the recurrent step (luong), before it (bahdanau), "
            "as a fixed vector (cho), or only as the initial state (plain).",
            ("plain", "cho", "luong", "bahdanau"),
        ),
        **_stack("decoder"),
        "maxout": Field(500, "For cho and bahdanau: width of the maxout output layer.", least=1),
    },
    "bridge": Field(
        "copy",
        "How final encoder states become initial decoder states.",
        ("copy", "dense", "backward"),
    ),
    "attention": _ATTENTION,
    "dropout": dropout(0.2),
    **weights("uniform", 0.1),
}


def memory_width(model: Config) -> int:
    """Width of the encoder states that a decoder reads."""
    return model.encoder.features * (2 if model.encoder.bidirectional else 1)


def _rules(config: Config) -> Iterator[str]:
    enc, dec, bridge = config.model.encoder, config.model.decoder, config.model.bridge
    width = memory_width(config.model)
    if bridge == "copy" and (enc.cell, enc.layers, width) != (dec.cell, dec.layers, dec.features):
        yield (
            f"config.model.bridge=copy needs equal encoder and decoder states, but the encoder has "
            f"{enc.layers} × {width} {enc.cell} and the decoder {dec.layers} × {dec.features} "
            f"{dec.cell}: make them equal, or set config.model.bridge=dense"
        )
    if bridge == "backward" and not enc.bidirectional:
        yield (
            "config.model.bridge=backward reads the backward direction, which this encoder does "
            "not have: set config.model.encoder.bidirectional=True or config.model.bridge=dense"
        )
    if enc.bidirectional and config.data.reverse_source:
        yield (
            "config.data.reverse_source=True has no effect on a bidirectional encoder: set one of "
            "the two to False"
        )
    yield from _attention_rules(config, width)


def _attention_rules(config: Config, width: int) -> Iterator[str]:
    data, decoder, attention = config.data, config.model.decoder, config.model.attention
    attends = decoder.type in ("luong", "bahdanau")
    if attends == (attention.align == "none"):
        yield (
            f"config.model.decoder.type={decoder.type} and config.model.attention.align="
            f"{attention.align} do not fit: luong and bahdanau need an alignment, plain and cho "
            "need align=none"
        )
    if attention.input_feeding and decoder.type != "luong":
        yield (
            f"config.model.attention.input_feeding=True needs decoder.type=luong, not "
            f"{decoder.type}: set input_feeding=False"
        )
    if not attends:
        return
    keys = width // (2 if attention.key_value == "split" else 1)
    if attention.score in ("dot", "scaled_dot") and keys != decoder.features:
        yield (
            f"config.model.attention.score={attention.score} needs equal widths, but keys have "
            f"{keys} features and decoder states {decoder.features}: use general or concat"
        )
    if attention.score == "location" and attention.max_source <= data.max_length:
        yield (
            f"config.model.attention.max_source={attention.max_source} is too small for sources of "
            f"data.max_length={data.max_length} tokens and </s>: make it larger"
        )
    if attention.key_value == "split" and width % 2:
        yield (
            f"config.model.attention.key_value=split cannot halve {width} encoder features: make "
            "their number even"
        )
    if attention.key_value == "zero" and (
        decoder.type != "luong" or attention.score not in ("general", "concat")
    ):
        yield (
            "config.model.attention.key_value=zero starts part of a score's matrix at zero: it "
            f"needs decoder.type=luong and score=general or concat, not {decoder.type} and "
            f"{attention.score}"
        )
    if config.train.doubly_stochastic and attention.align == "hard":
        yield "config.train.doubly_stochastic is for soft attention: set it to 0 with align=hard"


SEQ2SEQ = ModelSchema(
    name="seq2seq",
    task="translation",
    builder="models.seq2seq:make_seq2seq",
    fields=_FIELDS,
    rules=_rules,
)
