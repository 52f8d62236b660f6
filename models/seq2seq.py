"""Recurrent encoder–decoders: one module for every paper, put together by the config."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.attention import ALIGNMENTS, SCORES
from models.cells import CELLS, Carry
from models.decoders import DecoderState, LuongDecoder, PlainDecoder
from models.encoders import Memory, RecurrentEncoder
from models.initializers import make_initializer
from models.recurrent import Stack


class CopyBridge(nn.Module):
    """Hands the encoder's final states to the decoder layer by layer (Sutskever 2014)."""

    def __call__(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        return carries


class DenseBridge(nn.Module):
    """Each decoder state is tanh(W · an encoder layer's final states), for any depths and widths.

    Decoder layers above the encoder's depth read its top layer.
    """

    layers: int
    states: int
    features: int
    kernel_init: Initializer
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, carries: tuple[Carry, ...]) -> tuple[Carry, ...]:
        def bridge(layer: int) -> Carry:
            final = jnp.concatenate(carries[min(layer, len(carries) - 1)], axis=-1)
            width, name = self.states * self.features, f"layer{layer}"
            dense = nn.Dense(width, False, self.dtype, kernel_init=self.kernel_init, name=name)
            return tuple(jnp.split(jnp.tanh(dense(final)), self.states, axis=-1))

        return tuple(bridge(layer) for layer in range(self.layers))


class Seq2Seq(nn.Module):
    """The four calls of a translator: encode, decode, start, step."""

    encoder: RecurrentEncoder
    bridge: nn.Module
    decoder: PlainDecoder
    output: nn.Dense
    dropout: float

    def setup(self) -> None:
        self.drop = nn.Dropout(self.dropout)

    def encode(
        self, source: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> Memory:
        states, carries = self.encoder(source, mask, deterministic)
        return Memory(states, self.decoder.keys(states), mask, self.bridge(carries))

    def decode(
        self, memory: Memory, tokens: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Float[Array, "b t v"], Float[Array, "b t s"] | None]:
        """Teacher forcing: logits of every next word after the given ones, and the attention."""
        features, attention = self.decoder.decode(memory, tokens, deterministic)
        return self._logits(features, deterministic), attention

    def start(self, memory: Memory) -> DecoderState:
        return self.decoder.start(memory)

    def step(
        self, memory: Memory, state: DecoderState, tokens: Int[Array, " b"]
    ) -> tuple[Float[Array, "b v"], DecoderState, Float[Array, "b s"] | None]:
        features, state, attention = self.decoder.step(memory, state, tokens)
        return self._logits(features), state, attention

    def _logits(self, features: Array, deterministic: bool = True) -> Array:
        logits = self.output(self.drop(features, deterministic=deterministic))
        return logits.astype(jnp.float32)

    def __call__(self, source: Array, mask: Array, tokens: Array) -> Array:
        """Touches every parameter once, for initialisation."""
        return self.decode(self.encode(source, mask), tokens)[0]


def make_seq2seq(
    model: Config, source_size: int, target_size: int, reverse_source: bool
) -> Seq2Seq:
    """The translator that `config.model` describes."""
    init, dtype = make_initializer(model.init, model.init_scale), jnp.dtype(model.dtype)
    enc, dec = model.encoder, model.decoder

    def embed(size: int, features: int) -> nn.Embed:
        return nn.Embed(size, features, dtype=dtype, embedding_init=init)

    encoder = RecurrentEncoder(
        embed(source_size, enc.embedding),
        Stack(
            enc.cell, enc.features, enc.layers, enc.bidirectional, reverse_source, enc.residual,
            model.dropout, init, dtype,
        ),
    )  # fmt: skip
    stack = Stack(
        dec.cell, dec.features, dec.layers, residual=dec.residual, dropout=model.dropout,
        kernel_init=init, dtype=dtype,
    )  # fmt: skip
    bridge = CopyBridge()
    if model.bridge == "dense":
        bridge = DenseBridge(dec.layers, CELLS[dec.cell].states, dec.features, init, dtype)
    if model.attention.align == "none":
        decoder = PlainDecoder(embed(target_size, dec.embedding), stack)
    else:
        decoder = LuongDecoder(
            embed(target_size, dec.embedding),
            stack,
            ALIGNMENTS[model.attention.align](_make_score(model, init, dtype)),
            model.attention.input_feeding,
            init,
        )
    output = nn.Dense(target_size, False, dtype, kernel_init=init)
    return Seq2Seq(encoder, bridge, decoder, output, model.dropout)


def _make_score(model: Config, init: Initializer, dtype: DTypeLike):
    own = {
        "concat": {"features": model.decoder.features},
        "location": {"max_source": model.attention.max_source},
    }
    name = model.attention.score
    return SCORES[name](init, dtype, **own.get(name, {}))
