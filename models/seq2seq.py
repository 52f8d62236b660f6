"""Recurrent encoder–decoders: one module for every paper, put together by the config."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models import bridges
from models.attention import ALIGNMENTS, SCORES, Alignment
from models.cells import CELLS
from models.decoders import (
    BahdanauDecoder,
    ChoDecoder,
    DecoderState,
    LuongDecoder,
    Maxout,
    PlainDecoder,
)
from models.embedding import Embed
from models.encoders import Memory, RecurrentEncoder
from models.initializers import Initializers, make_initializers, with_zeros
from models.output import Output, logits
from models.recurrent import Stack


class Seq2Seq(nn.Module):
    """The four calls of a translator: encode, decode, start, step."""

    encoder: RecurrentEncoder
    bridge: nn.Module
    decoder: PlainDecoder
    output: Output
    dropout: float

    def setup(self) -> None:
        self.drop = nn.Dropout(self.dropout)

    def encode(
        self, source: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> Memory:
        states, carries = self.encoder(source, mask, deterministic)
        read = self.decoder.source(states, mask, deterministic)
        return Memory(self.bridge(carries), carries[-1][-1], read)

    def decode(
        self,
        memory: Memory,
        tokens: Int[Array, "b t"],
        deterministic: bool = True,
        attention: bool = False,
    ) -> tuple[Float[Array, "b t h"], Float[Array, "b t s"] | None]:
        """Teacher forcing: features of every next word after the given ones."""
        features, weights = self.decoder.decode(memory, tokens, deterministic)
        features = self.drop(features, deterministic=deterministic)
        return features, weights if attention else None

    def start(self, memory: Memory, length: int, hypotheses: int = 1) -> DecoderState:
        """Where so many hypotheses a sentence begin; their states have room for any `length`."""
        state = self.decoder.start(memory)
        return jax.tree.map(lambda x: jnp.repeat(x, hypotheses, axis=0), state)

    def step(
        self,
        memory: Memory,
        state: DecoderState,
        tokens: Int[Array, " b"],
        attention: bool = False,
    ) -> tuple[Float[Array, "b v"], DecoderState, Float[Array, "b s"] | None]:
        features, state, weights = self.decoder.step(memory, state, tokens)
        return logits(features, self.output.kernel), state, weights if attention else None

    def output_kernel(self) -> Float[Array, "h v"]:
        return self.output.kernel

    def __call__(self, source: Array, mask: Array, tokens: Array) -> Array:
        """Touches every parameter once, for initialisation."""
        return logits(self.decode(self.encode(source, mask), tokens)[0], self.output.kernel)


def make_seq2seq(
    model: Config, source_size: int, target_size: int, reverse_source: bool
) -> Seq2Seq:
    """The translator that `config.model` describes."""
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)
    enc, dec = model.encoder, model.decoder

    def embed(size: int, features: int) -> Embed:
        return Embed(size, features, dtype=dtype, embedding_init=init.kernel)

    encoder = RecurrentEncoder(
        embed(source_size, enc.embedding),
        Stack(
            enc.cell, enc.features, enc.layers, enc.bidirectional, reverse_source, enc.residual,
            model.dropout, init, dtype,
        ),
    )  # fmt: skip
    width = dec.maxout if model.wiring in ("cho", "bahdanau") else dec.features
    output = Output(width, target_size, init.kernel)
    bridge = _make_bridge(model, init, dtype)
    decoder = _make_decoder(model, embed(target_size, dec.embedding), init, dtype)
    return Seq2Seq(encoder, bridge, decoder, output, model.dropout)


def _make_bridge(model: Config, init: Initializers, dtype: DTypeLike) -> nn.Module:
    dec = model.decoder
    if model.bridge == "copy":
        return bridges.Copy()
    kind = {"dense": bridges.Dense, "backward": bridges.Backward}[model.bridge]
    return kind(dec.layers, CELLS[dec.cell].states, dec.features, init.kernel, dtype)


def _make_decoder(
    model: Config, embed: Embed, init: Initializers, dtype: DTypeLike
) -> PlainDecoder:
    dec, attention = model.decoder, model.attention
    stack = Stack(
        dec.cell, dec.features, dec.layers, residual=dec.residual, dropout=model.dropout,
        start_weights=init, dtype=dtype,
    )  # fmt: skip
    if model.wiring == "plain":
        return PlainDecoder(embed, stack)
    readout = Maxout(dec.maxout, init.kernel, dtype)
    if model.wiring == "cho":
        return ChoDecoder(embed, stack, readout)
    alignment = _make_alignment(model, init, dtype)
    if model.wiring == "bahdanau":
        return BahdanauDecoder(embed, stack, alignment, readout)
    combine = init.kernel
    if attention.key_value == "zero":  # the half that scores starts without a say in the context
        combine = with_zeros(combine, rows=slice(memory_width(model) // 2))
    return LuongDecoder(embed, stack, alignment, attention.input_feeding, combine)


def _make_alignment(model: Config, init: Initializers, dtype: DTypeLike) -> Alignment:
    attention = model.attention
    width = memory_width(model) // (2 if attention.key_value == "split" else 1)
    of_score = {
        "general": {"features": model.decoder.features},
        "concat": {"features": model.decoder.features, "memory_width": width},
        "location": {"max_source": attention.max_source},
    }
    score = SCORES[attention.score](
        init, dtype, attention.key_value == "zero", **of_score.get(attention.score, {})
    )
    of_alignment = {
        "local_m": {"D": attention.D},
        "local_p": {
            "D": attention.D, "sigma": attention.sigma, "renormalise": attention.renormalise,
        },
    }  # fmt: skip
    own = of_alignment.get(attention.align, {})
    return ALIGNMENTS[attention.align](score, attention.key_value == "split", **own)


def memory_width(model: Config) -> int:
    return model.encoder.features * (2 if model.encoder.bidirectional else 1)
