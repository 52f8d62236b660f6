"""The Transformer, with the same four methods as the recurrent models.

Sections (§) in this module refer to Vaswani 2017.

Decoding computes source keys and values once per sentence, and target keys and values once per
token (KV cache). Hypotheses are batched along the target-position axis, so that the hypotheses of a
sentence share one copy of its source keys and values.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import Array
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.dropout import Dropout
from models.embedding import Embed
from models.initializers import XAVIER
from models.layers import Layers
from models.multihead import KeysValues, KVCache, LayerShape, MultiHeadAttention
from models.output import Features, Output, logits, output_scores


class FeedForward(nn.Module):
    """Position-wise feed-forward network: max(0, x W_1 + b_1) W_2 + b_2 (§3.3)."""

    shape: LayerShape

    def setup(self) -> None:
        self.W_1 = self.shape.dense(self.shape.feed_forward, use_bias=True)
        self.W_2 = self.shape.dense(self.shape.features, use_bias=True)

    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        return self.W_2(nn.relu(self.W_1(x)))


class Residual(nn.Module):
    """Residual connection and layer normalization around a sublayer.

    The output is LayerNorm(x + Sublayer(x)) (§3.1), or x + Sublayer(LayerNorm(x)) with `pre_norm`.
    Dropout is applied to the output of the sublayer (§5.4).
    """

    shape: LayerShape

    def setup(self) -> None:
        self.norm = nn.LayerNorm(dtype=self.shape.dtype)
        self.drop = Dropout(self.shape.dropout)

    def enter(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        """Return the input of the sublayer: x, normalized if `pre_norm`."""
        return self.norm(x) if self.shape.pre_norm else x

    def leave(
        self, x: Float[Array, "b t d"], y: Float[Array, "b t d"], deterministic: bool
    ) -> Float[Array, "b t d"]:
        """Add the sublayer's output y to the residual x; normalize the sum unless `pre_norm`."""
        x = x + self.drop(y, deterministic=deterministic)
        return x if self.shape.pre_norm else self.norm(x)


class EncoderLayer(nn.Module):
    """Encoder layer: self-attention and a feed-forward network (§3.1)."""

    shape: LayerShape

    def setup(self) -> None:
        self.attention = MultiHeadAttention(self.shape)
        self.feed_forward = FeedForward(self.shape)
        self.residuals = [Residual(self.shape) for _ in range(2)]

    def __call__(
        self, x: Float[Array, "b s d"], lengths: Int[Array, " b"], deterministic: bool
    ) -> Float[Array, "b s d"]:
        first, second = self.residuals
        inner = first.enter(x)
        keys_values = self.attention.keys_values(inner)
        y, _ = self.attention(inner, keys_values, lengths, deterministic=deterministic)
        x = first.leave(x, y, deterministic)
        return second.leave(x, self.feed_forward(second.enter(x)), deterministic)


class DecoderLayer(nn.Module):
    """Decoder layer: causal self-attention, cross-attention and a feed-forward network (§3.1)."""

    shape: LayerShape

    def setup(self) -> None:
        self.self_attention = MultiHeadAttention(self.shape)
        self.source_attention = MultiHeadAttention(self.shape)
        self.feed_forward = FeedForward(self.shape)
        self.residuals = [Residual(self.shape) for _ in range(3)]

    def source(self, states: Float[Array, "b s d"]) -> KeysValues:
        """Compute the keys and values of the cross-attention from encoder states."""
        return self.source_attention.keys_values(states)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        source: KeysValues,
        lengths: Int[Array, " b"],
        cached: tuple[KVCache, Int[Array, ""], Bool[Array, "b n c"]] | None = None,
        attention: bool = False,
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t d"], KVCache | None, Float[Array, "b h t s"] | None]:
        """Apply the layer to whole target sentences, or to the next token of each hypothesis.

        To decode the next token, `cached` is a tuple of the KV cache, the position of the token,
        and a mask of the cached tokens that belong to each hypothesis.
        """
        first, second, third = self.residuals
        inner, cache, target_positions = first.enter(x), None, None
        if cached is None:
            target_positions = jnp.arange(x.shape[1])[None]
            keys_values = self.self_attention.keys_values(inner)
            y, _ = self.self_attention(inner, keys_values, causal=True, deterministic=deterministic)
        else:
            y, cache = self.self_attention.step(inner, *cached)
        x = first.leave(x, y, deterministic)
        y, weights = self.source_attention(
            second.enter(x), source, lengths, weights=attention, deterministic=deterministic,
            target_positions=target_positions,
        )  # fmt: skip
        x = second.leave(x, y, deterministic)
        x = third.leave(x, self.feed_forward(third.enter(x)), deterministic)
        return x, cache, weights


@struct.dataclass
class TransformerMemory:
    """Encoded batch of source sentences."""

    source: Any  # keys and values (KeysValues) of each decoder layer's cross-attention
    lengths: Int[Array, " b"]  # number of tokens of each source sentence, including </s>


@struct.dataclass
class TransformerState:
    """Decoder state between two time steps: one row per hypothesis, grouped by sentence.

    Cached keys and values are never moved between beam slots. When beam search reorders hypotheses,
    it only reorders `slots`, which records where the tokens of each prefix are cached.
    """

    cache: Any  # the KVCache of each decoder layer
    slots: Int[Array, "r t"]  # beam slot that holds the keys and values of each prefix token
    t: Int[Array, " r"]  # number of tokens generated so far, equal in all rows

    def reorder(self, rows: Callable[[Array], Array]) -> "TransformerState":
        """Replace the prefix of each hypothesis by its parent's; `rows` gathers the parents."""
        return dataclasses.replace(self, slots=rows(self.slots))


class Transformer(nn.Module):
    """Transformer translation model with the four methods encode, decode, start and step."""

    shape: LayerShape
    encoder: Layers
    decoder: Layers
    source_embed: Embed
    target_embed: Embed  # the same module as for the source if embeddings are shared
    positions: Embed | None  # learned positional embeddings; None: the model uses sinusoids
    output: Output | None  # None: the output matrix is tied to the target embeddings
    attention_layer: int  # decoder layer whose cross-attention the model returns
    attention_head: int  # head of this layer; -1: the mean over all heads

    def setup(self) -> None:
        self.drop = Dropout(self.shape.dropout)

    def encode(
        self, source: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> TransformerMemory:
        """Encode source sentences."""
        lengths = mask.sum(axis=1)

        def body(layer: EncoderLayer, x: Array, _: None) -> tuple[Array, None]:
            return layer(x, lengths, deterministic), None

        x = self._embed(self.source_embed, source, jnp.arange(source.shape[1]), deterministic)
        states = self.encoder.finish(self.encoder.through(body, x, None)[0])

        def project(layer: DecoderLayer, states: Array, _: None) -> tuple[Array, KeysValues]:
            return states, layer.source(states)

        return TransformerMemory(self.decoder.through(project, states, None)[1], lengths)

    def decode(
        self,
        memory: TransformerMemory,
        tokens: Int[Array, "b t"],
        deterministic: bool = True,
        attention: bool = False,
    ) -> tuple[Features, Float[Array, "b t s"] | None]:
        """Run the decoder on whole target sentences (teacher forcing).

        Return features, which predict the next tokens, and the weights if `attention` is set.
        """

        def body(layer: DecoderLayer, x: Array, source: KeysValues) -> tuple[Array, Any]:
            x, _, weights = layer(
                x, source, memory.lengths, attention=attention, deterministic=deterministic
            )
            return x, weights

        x = self._embed(self.target_embed, tokens, jnp.arange(tokens.shape[1]), deterministic)
        x, weights = self.decoder.through(body, x, memory.source)
        return Features(self.decoder.finish(x)), self._summary(weights) if attention else None

    def start(
        self, memory: TransformerMemory, length: int, hypotheses: int = 1
    ) -> TransformerState:
        """Return an initial state with an empty KV cache for `length` tokens per hypothesis."""
        batch, shape = memory.lengths.shape[0], self.shape
        axes = batch, shape.heads, length * hypotheses
        empty = (
            jnp.zeros((*axes, shape.key_features), shape.dtype),
            jnp.zeros((*axes, shape.features // shape.heads), shape.dtype),
        )
        cache = (empty,) * self.decoder.depth
        rows = batch * hypotheses
        return TransformerState(cache, jnp.zeros((rows, length), int), jnp.zeros(rows, int))

    def step(
        self,
        memory: TransformerMemory,
        state: TransformerState,
        tokens: Int[Array, " r"],
        attention: bool = False,
    ) -> tuple[Float[Array, "r v"], TransformerState, Float[Array, "r s"] | None]:
        """Read one token per hypothesis; return logits, the new state and attention weights.

        The layers must be unrolled (`unroll_layers`), because a loop over them would copy the whole
        KV cache.
        """
        sentences = memory.lengths.shape[0]
        shape = sentences, tokens.shape[0] // sentences  # sentences, beam width
        t, (rows, length) = state.t[0], state.slots.shape
        slot = (jnp.arange(rows) % shape[1])[:, None]
        slots = jax.lax.dynamic_update_slice_in_dim(state.slots, slot, t, axis=1)
        seen = slots[..., None] == jnp.arange(shape[1])[None, None]
        seen &= (jnp.arange(length) <= t)[None, :, None]
        seen = seen.reshape(*shape, -1)

        def body(layer: DecoderLayer, x: Array, inputs: Any) -> tuple[Array, Any]:
            source, cache = inputs
            x, cache, weights = layer(
                x, source, memory.lengths, (cache, t, seen), attention=attention
            )
            return x, (cache, weights)

        inputs = tuple(zip(memory.source, state.cache, strict=True))
        x = self._embed(
            self.target_embed, tokens.reshape(shape), state.t.reshape(shape), deterministic=True
        )
        x, outputs = self.decoder.through(body, x, inputs)
        cache, weights = zip(*outputs, strict=True)
        features = self.decoder.finish(x).reshape(rows, -1)
        state = TransformerState(cache, slots, state.t + 1)
        summary = self._summary(weights).reshape(rows, -1) if attention else None
        return logits(features, self.output_kernel()), state, summary

    def output_kernel(self) -> Float[Array, "d v"]:
        """Return the kernel of the output projection, with one column per target token."""
        return self.target_embed.embedding.T if self.output is None else self.output.kernel

    def _embed(
        self,
        embed: Embed,
        tokens: Int[Array, "b t"],
        positions: Int[Array, " t"] | Int[Array, "b t"],
        deterministic: bool,
    ) -> Float[Array, "b t d"]:
        """Add √d × token embeddings and positional encodings (§3.4, §3.5); apply dropout (§5.4)."""
        features = self.shape.features
        if self.positions is None:
            encoded = sinusoids(positions, features).astype(self.shape.dtype)
        else:
            # Positions beyond the embedding table use its last entry: jnp.take would return NaN.
            last = self.positions.num_embeddings - 1
            encoded = self.positions(jnp.minimum(positions, last))
        x = embed(tokens) * jnp.asarray(math.sqrt(features), self.shape.dtype)
        return self.drop(x + encoded.reshape(-1, *x.shape[1:]), deterministic=deterministic)

    def _summary(self, weights: Any) -> Float[Array, "b t s"]:
        """Return the cross-attention of `attention_layer` and `attention_head`."""
        heads, head = self.decoder.pick(weights, self.attention_layer), self.attention_head
        return heads.mean(axis=1) if head < 0 else heads[:, head]

    @staticmethod
    def source_attention(collection: dict[str, Any]) -> Float[Array, "b n h t s"]:
        """Return the cross-attention of all layers and heads, from the collection "attention"."""
        layers = collection["decoder"]
        if "stacked" in layers:
            return jnp.moveaxis(layers["stacked"]["source_attention"]["weights"][0], 0, 1)
        names = sorted(layers, key=lambda name: int(name.rpartition("_")[2]))
        return jnp.stack([layers[name]["source_attention"]["weights"][0] for name in names], 1)

    def __call__(
        self, source: Int[Array, "b s"], mask: Bool[Array, "b s"], tokens: Int[Array, "b t"]
    ) -> Float[Array, "b t v"]:
        """Return logits under teacher forcing; used to initialize all parameters."""
        features, _ = self.decode(self.encode(source, mask), tokens)
        return output_scores(features, self.output_kernel())


def sinusoids(positions: Int[Array, "*p"], features: int) -> Float[Array, "*p d"]:
    """Compute sinusoidal positional encodings (§3.5).

    PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)).
    """
    rates = 10_000.0 ** (-jnp.arange(0, features, 2) / features)
    angles = positions[..., None] * rates.reshape((1,) * positions.ndim + (-1,))
    waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return waves.reshape(*positions.shape, -1)[..., :features]


def make_transformer(
    model: Config, source_size: int, target_size: int, reverse_source: bool
) -> Transformer:
    """Build a Transformer from `config.model`, for the given vocabulary sizes."""
    del reverse_source  # the config check rejects it: Transformers have no reading order
    dtype, d = jnp.dtype(model.dtype), model.features
    shape = LayerShape(
        d, model.heads, model.key_features or d // model.heads, model.feed_forward,
        model.norm == "pre", model.dropout, model.attention_dropout, dtype,
    )  # fmt: skip

    def embed(size: int) -> Embed:
        # Embeddings have variance 1 after the multiplication by √d; the small initial values also
        # suit a tied output matrix.
        return Embed(size, d, dtype=dtype, embedding_init=nn.initializers.normal(d**-0.5))

    source_embed = embed(source_size)
    return Transformer(
        shape,
        Layers(EncoderLayer, shape, model.layers, model.scan, model.remat),
        Layers(DecoderLayer, shape, model.layers, model.scan, model.remat),
        source_embed,
        source_embed if model.share_embeddings else embed(target_size),
        embed(model.max_positions) if model.positions == "learned" else None,
        None if model.tie_output else Output(d, target_size, XAVIER.kernel),
        model.attention_layer,
        model.attention_head,
    )
