"""Recurrent encoder–decoder models: one module for all papers, assembled from the config."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.bridges import BRIDGES
from models.decoders import DECODERS, PlainDecoder, RecurrentState
from models.dropout import Dropout
from models.embedding import Embed
from models.encoders import RecurrentEncoder, RecurrentMemory
from models.initializers import make_initializers
from models.output import Features, Output, output_scores
from models.recurrent import Stack


class Seq2Seq(nn.Module):
    """Recurrent translation model with the four methods encode, decode, start and step."""

    encoder: RecurrentEncoder
    bridge: nn.Module
    decoder: PlainDecoder
    output: Output
    dropout: float

    def setup(self) -> None:
        self.drop = Dropout(self.dropout)

    def encode(
        self, source: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> RecurrentMemory:
        """Encode source sentences."""
        states, carries = self.encoder(source, mask, deterministic)
        attended = self.decoder.source(states, mask)
        return RecurrentMemory(self.bridge(carries), carries[-1][-1], attended)

    def decode(
        self,
        memory: RecurrentMemory,
        tokens: Int[Array, "b t"],
        deterministic: bool = True,
        attention: bool = False,
    ) -> tuple[Features, Float[Array, "b t s"] | None]:
        """Run the decoder on whole target sentences (teacher forcing).

        Return the features at every position, which predict the next token, and the attention
        weights if `attention` is set.
        """
        features, weights = self.decoder.decode(memory, tokens, deterministic)
        vectors = features.vectors
        if vectors.ndim == 3:
            vectors = self.drop(vectors, deterministic=deterministic)
        else:
            # All vectors of a target position share a dropout mask, so that their outputs differ
            # only because of the contexts.
            vectors *= self.drop(jnp.ones_like(vectors[:, :, :1]), deterministic=deterministic)
        features = dataclasses.replace(features, vectors=vectors)
        return features, weights if attention else None

    def start(self, memory: RecurrentMemory, length: int, hypotheses: int = 1) -> RecurrentState:
        """Return the initial state, with `hypotheses` rows per sentence.

        `length`, the maximum length of a hypothesis, is not used: there is no KV cache.
        """
        state = self.decoder.start(memory)
        return jax.tree.map(lambda x: jnp.repeat(x, hypotheses, axis=0), state)

    def step(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        tokens: Int[Array, " r"],
        attention: bool = False,
    ) -> tuple[Float[Array, "r v"], RecurrentState, Float[Array, "r s"] | None]:
        """Read one token per hypothesis; return its scores, the new state and attention weights.

        The scores are logits or log-probabilities of the next token (`output_scores`).
        """
        features, state, weights = self.decoder.step(memory, state, tokens)
        scores = output_scores(features, self.output.kernel)
        return scores, state, weights if attention else None

    def output_kernel(self) -> Float[Array, "h v"]:
        """Return the kernel of the output projection, with one column per target token."""
        return self.output.kernel

    def __call__(
        self, source: Int[Array, "b s"], mask: Bool[Array, "b s"], tokens: Int[Array, "b t"]
    ) -> Float[Array, "b t v"]:
        """Return logits under teacher forcing; used to initialize all parameters."""
        memory = self.encode(source, mask)
        features, _ = self.decode(memory, tokens)
        return output_scores(features, self.output.kernel)


def make_seq2seq(
    model: Config, source_size: int, target_size: int, reverse_source: bool
) -> Seq2Seq:
    """Build a recurrent translation model from `config.model`, for the given vocabulary sizes."""
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
    stack = Stack(
        dec.cell, dec.features, dec.layers, residual=dec.residual, dropout=model.dropout,
        initializers=init, dtype=dtype,
    )  # fmt: skip
    decoder = DECODERS[dec.type].from_config(model, embed(target_size, dec.embedding), stack)
    output = Output(decoder.output_width, target_size, init.kernel)
    return Seq2Seq(encoder, BRIDGES[model.bridge](stack), decoder, output, model.dropout)
