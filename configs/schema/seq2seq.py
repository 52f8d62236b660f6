"""Recurrent encoder–decoder models: Sutskever, Cho, Bahdanau, Luong, Xu and Mino."""

from collections.abc import Iterator

from configs.schema.common import CELL_HELP, CELL_NAMES, dropout, initialization
from configs.schema.field import Config, Field, Fields, ModelSchema


def _stack(side: str) -> Fields:
    """Return the fields of the encoder or the decoder."""
    return {
        "cell": Field("lstm", f"Recurrent cell of the {side}; {CELL_HELP}.", CELL_NAMES),
        "layers": Field(2, "Number of recurrent layers.", least=1, most=200),
        "features": Field(
            512, "Width of a recurrent layer; if bidirectional, of each direction.", least=1
        ),
        "embedding": Field(512, "Width of the token embeddings.", least=1),
        "residual": Field(False, "Residual connections from the second layer on."),
    }


# Alignments whose output distribution is a mixture over all source positions. No decoder state may
# depend on a position, so they need decoder.type=luong without input feeding.
MARGINALIZING = ("marginal",)
# Scores that multiply decoder states by keys without a matrix between them.
EQUAL_WIDTHS = ("dot", "scaled_dot")

_ATTENTION: Fields = {
    "align": Field(
        "global",
        "Alignment: attend to all source positions (global), to a window around source position t "
        "at time step t (local_m), to a window around a predicted position (local_p), to one "
        "sampled position (hard), or to one unknown position, over which p(y) is summed "
        "(marginal); none: no attention.",
        ("none", "global", "local_m", "local_p", "hard", "marginal"),
    ),
    "score": Field(
        "general",
        "Score function between a decoder state and a source position.",
        ("dot", "scaled_dot", "general", "concat", "location"),
    ),
    "input_feeding": Field(
        True, "For decoder.type=luong: feed the attentional state into the next time step."
    ),
    "max_source": Field(
        64,
        "For score=location: number of source positions that have scores; later positions get no "
        "attention.",
        least=1,
    ),
    "D": Field(
        10,
        "For local_m and local_p: the window is [p_t − D, p_t + D] in source positions.",
        least=1,
    ),
    "clamp": Field(
        True,
        "For local_m: limit p_t to the last source position; False: p_t = t, as in the paper, so "
        "that the window is empty if t exceeds the last source position by more than D.",
    ),
    "sigma": Field(
        0.0,
        "For local_p: standard deviation of the Gaussian in source positions; 0: D/2, as in the "
        "paper.",
        least=0,
    ),
    "renormalize": Field(
        False, "For local_p: renormalize the attention weights after the Gaussian is applied."
    ),
    "positions": Field(
        4,
        "For hard: in validation and decoding, mix the output distributions of this many source "
        "positions with the largest weights; 1: use only the position with the largest weight.",
        least=1,
    ),
    "key_value": Field(
        "none",
        "Keys and values of Mino 2017. split: the first half of each encoder state is the key, the "
        "second half is the value. zero: whole states are keys and values, but the weights that a "
        "split would remove are initialized to zero. none: ordinary attention.",
        ("none", "split", "zero"),
    ),
}

_FIELDS: Fields = {
    "encoder": {
        **_stack("encoder"),
        "bidirectional": Field(False, "Encode the source in both directions."),
    },
    "decoder": {
        "type": Field(
            "luong",
            "Decoder type: attention after the recurrent step (luong); attention before the "
            "recurrent step (bahdanau); no attention, but the final encoder state is an input of "
            "every time step (cho); no attention, and the final encoder state is only the initial "
            "state (plain).",
            ("plain", "cho", "luong", "bahdanau"),
        ),
        **_stack("decoder"),
        "maxout": Field(500, "For cho and bahdanau: width of the maxout output layer.", least=1),
    },
    "bridge": Field(
        "copy",
        "Initial decoder states: the final encoder states (copy), a dense layer over the final "
        "encoder states (dense), or a dense layer over the final states of the backward direction "
        "only (backward, Bahdanau 2015).",
        ("copy", "dense", "backward"),
    ),
    "attention": _ATTENTION,
    "dropout": dropout(0.2),
    **initialization("uniform", 0.1),
}


def memory_width(model: Config) -> int:
    """Return the width of the encoder states that a decoder attends to."""
    return model.encoder.features * (2 if model.encoder.bidirectional else 1)


def _rules(config: Config) -> Iterator[str]:
    enc, dec, bridge = config.model.encoder, config.model.decoder, config.model.bridge
    width = memory_width(config.model)
    if bridge == "copy" and (enc.cell, enc.layers, width) != (dec.cell, dec.layers, dec.features):
        yield (
            "config.model.bridge=copy needs equal encoder and decoder states, but the encoder has "
            f"{enc.layers} × {width} {enc.cell} (layers × width) and the decoder {dec.layers} × "
            f"{dec.features} {dec.cell}: make them equal, or set config.model.bridge=dense"
        )
    if bridge == "backward" and not enc.bidirectional:
        yield (
            "config.model.bridge=backward needs a bidirectional encoder: set "
            "config.model.encoder.bidirectional=True or config.model.bridge=dense"
        )
    if enc.bidirectional and config.data.reverse_source:
        yield (
            "config.data.reverse_source=True is not useful with a bidirectional encoder, which "
            "reads the source in both directions: set "
            "config.data.reverse_source=False or config.model.encoder.bidirectional=False"
        )
    yield from _attention_rules(config, width)


def _attention_rules(config: Config, width: int) -> Iterator[str]:
    data, decoder, attention = config.data, config.model.decoder, config.model.attention
    attends = decoder.type in ("luong", "bahdanau")
    if attends == (attention.align == "none"):
        yield (
            f"config.model.decoder.type={decoder.type} and config.model.attention.align="
            f"{attention.align} are incompatible: set align=none for the decoder types plain and "
            "cho, and another alignment for luong and bahdanau"
        )
    if attention.input_feeding and decoder.type != "luong":
        yield (
            f"config.model.attention.input_feeding=True needs config.model.decoder.type=luong, not "
            f"{decoder.type}: set config.model.attention.input_feeding=False"
        )
    if not attends:
        return
    keys = width // (2 if attention.key_value == "split" else 1)
    if attention.score in EQUAL_WIDTHS and keys != decoder.features:
        yield (
            f"config.model.attention.score={attention.score} needs equal widths, but keys have "
            f"{keys} features and decoder states have {decoder.features}: use general or concat"
        )
    if attention.score == "location" and attention.max_source <= data.max_length:
        yield (
            f"config.model.attention.max_source={attention.max_source} is too small for sources of "
            f"data.max_length={data.max_length} tokens and </s>: set it to at least "
            f"{data.max_length + 1}"
        )
    if attention.key_value == "split" and width % 2:
        yield (
            f"config.model.attention.key_value=split needs an even number of encoder features, not "
            f"{width}: change config.model.encoder.features"
        )
    if attention.key_value == "zero" and (
        decoder.type != "luong" or attention.score not in ("general", "concat")
    ):
        yield (
            "config.model.attention.key_value=zero needs decoder.type=luong and score=general or "
            f"concat, not {decoder.type} and {attention.score}: change them, or set key_value=none"
        )
    if attention.align in MARGINALIZING and (decoder.type != "luong" or attention.input_feeding):
        yield (
            f"config.model.attention.align={attention.align} needs decoder.type=luong and "
            "attention.input_feeding=False (luong2015.py:feed=no), because no decoder state may "
            "depend on the source position: set them"
        )


SEQ2SEQ = ModelSchema(
    name="seq2seq",
    task="translation",
    builder="models.seq2seq:make_seq2seq",
    fields=_FIELDS,
    rules=_rules,
    concurrent=True,
    title="recurrent encoder–decoder",
)
