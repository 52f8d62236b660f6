"""The Transformer (Vaswani 2017): attention in place of recurrence, behind the same four calls.

Keys and values of the source are computed once a sentence, those of written words once a word: a
decoding step is one word wide. The hypotheses of a sentence ask as its positions do in training,
side by side, so that one product reads the sentence's keys for all of them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Literal, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.attention import masked_softmax
from models.embedding import Embed
from models.initializers import XAVIER
from models.output import Output, logits

KeysValues = tuple[Float[Array, "b s h k"], Float[Array, "b s h v"]]
# Of all hypotheses of a sentence, with room for more words; heads before words, as products of
# batches want them.
Written = tuple[Array, ...]  # [b, h, t, hypotheses, k] and [b, h, t, hypotheses, v]


@dataclasses.dataclass(frozen=True)
class Shape:
    """What all layers of a model have in common."""

    features: int  # d_model
    heads: int  # h
    key_features: int  # d_k of a head
    feed_forward: int  # d_ff
    pre_norm: bool
    dropout: float
    attention_dropout: float
    dtype: DTypeLike

    def dense(self, features: int, use_bias: bool = False) -> nn.Dense:
        return nn.Dense(features, use_bias, self.dtype, kernel_init=XAVIER.kernel)


class MultiHeadAttention(nn.Module):
    """Concat(head_1, …, head_h) W_O, head_i = softmax(Q W_Q (K W_K)ᵀ / √d_k) V W_V (§3.2.2)."""

    shape: Shape

    def setup(self) -> None:
        shape = self.shape
        self.W_Q = shape.dense(shape.heads * shape.key_features)
        self.W_K = shape.dense(shape.heads * shape.key_features)
        self.W_V = shape.dense(shape.features)
        self.W_O = shape.dense(shape.features)
        self.drop = nn.Dropout(shape.attention_dropout)

    def keys_values(self, states: Float[Array, "b s d"]) -> KeysValues:
        return self._heads(self.W_K(states)), self._heads(self.W_V(states))

    def __call__(
        self,
        x: Float[Array, "b t d"],
        keys_values: KeysValues,
        lengths: Int[Array, " b"] | None = None,
        causal: bool = False,
        weights: bool = False,
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b t d"], Float[Array, "b h t s"] | None]:
        """Positions from `lengths` on are not seen; `causal` hides those behind the asking one.

        Weights are computed beside the fused attention, and in its place only where some are
        dropped: asking for them, here or by a mutable collection "attention", changes no output.
        """
        query, (keys, values) = self._heads(self.W_Q(x)), keys_values
        sown = self.is_mutable_collection("attention") and not self.is_initializing()
        drops = self.shape.attention_dropout > 0 and not deterministic
        alpha = None
        if weights or sown or drops:
            alpha = attention_weights(query, keys, lengths, causal)
        if sown:
            self.sow("attention", "weights", alpha)
        if drops:  # which the fused attention cannot do
            left = self.drop(alpha, deterministic=False).astype(values.dtype)
            context = jnp.einsum("bhts,bshv->bthv", left, values)
        else:
            context = attend(query, keys, values, lengths, causal)
        return self.W_O(context.reshape(*x.shape)), alpha if weights else None

    def step(
        self, x: Float[Array, "b k d"], written: Written, t: Array, seen: Bool[Array, "b k s"]
    ) -> tuple[Float[Array, "b k d"], Written]:
        """Writes word t of k hypotheses and reads those of all that each has `seen`."""
        put = jax.lax.dynamic_update_index_in_dim
        new = (x.swapaxes(1, 2) for x in self.keys_values(x))  # [b, h, k, ·]
        written = tuple(put(room, x, t, axis=2) for room, x in zip(written, new, strict=True))
        keys, values = (x.reshape(*x.shape[:2], -1, x.shape[-1]) for x in written)
        query, scale = self._heads(self.W_Q(x)), 1 / math.sqrt(keys.shape[-1])
        ratings = jnp.einsum("bqhk,bhsk->bhqs", query, keys, preferred_element_type=jnp.float32)
        weights = masked_softmax(ratings * scale, seen[:, None]).astype(values.dtype)
        context = jnp.einsum("bhqs,bhsv->bqhv", weights, values)
        return self.W_O(context.reshape(*x.shape)), written

    def _heads(self, x: Float[Array, "b s _"]) -> Float[Array, "b s h _"]:
        return x.reshape(*x.shape[:2], self.shape.heads, -1)


def attend(
    query: Float[Array, "b t h k"],
    keys: Float[Array, "b s h k"],
    values: Float[Array, "b s h v"],
    lengths: Int[Array, " b"] | None,
    causal: bool,
) -> Float[Array, "b t h v"]:
    """softmax(Q Kᵀ / √d_k) V (eq. 1) by the fastest way that the device has."""
    scale = 1 / math.sqrt(keys.shape[-1])
    if lengths is not None:
        # Rows of padding see one word, for cuDNN's gradient of a row that sees none is NaN.
        lengths = jnp.maximum(lengths, 1)
    # dot_product_attention wants d_k = d_v: zeros add nothing to a product.
    short = values.shape[-1] - keys.shape[-1]
    if short:
        query, keys = (jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, short))) for x in (query, keys))
    return jax.nn.dot_product_attention(
        query, keys, values, scale=scale, is_causal=causal, key_value_seq_lengths=lengths,
        implementation=_implementation(query, keys),
    )  # fmt: skip


def _implementation(query: Array, keys: Array) -> Literal["cudnn", "xla"]:
    """cuDNN's flash attention where the GPU has it, it takes the types, and sentences are long."""
    fits = query.dtype == jnp.bfloat16 and query.shape[-1] % 8 == 0 and query.shape[-1] <= 128
    long = min(query.shape[1], keys.shape[1]) >= FLASH_FROM
    return "cudnn" if fits and long and _has_flash() else "xla"


@functools.cache
def _has_flash() -> bool:
    device = jax.devices()[0]
    if device.platform != "gpu" or "nvidia" not in device.device_kind.lower():
        return False
    return float(getattr(device, "compute_capability", 0)) >= 8  # Ampere or younger


# Words from which cuDNN is faster, forward and backward on an H200, 65,536 words of 8 × 64 heads:
# 32 words 1.0 against XLA's .73 ms, 64 .70 / .92, 128 .53 / 1.2, 512 .91 / 3.8, 1,024 1.4 / 7.0.
FLASH_FROM = 64


def attention_weights(
    query: Array, keys: Array, lengths: Array | None, causal: bool
) -> Float[Array, "b h t s"]:
    ratings = jnp.einsum("bthk,bshk->bhts", query, keys, preferred_element_type=jnp.float32)
    t, s = ratings.shape[-2:]
    seen = jnp.tri(t, s, dtype=bool) if causal else jnp.ones((t, s), bool)
    seen = seen[None, None]
    if lengths is not None:
        seen = seen & (jnp.arange(s)[None] < lengths[:, None])[:, None, None]
    return masked_softmax(ratings / math.sqrt(keys.shape[-1]), seen)


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 (eq. 2)."""

    shape: Shape

    def setup(self) -> None:
        self.W_1 = self.shape.dense(self.shape.feed_forward, use_bias=True)
        self.W_2 = self.shape.dense(self.shape.features, use_bias=True)

    def __call__(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        return self.W_2(nn.relu(self.W_1(x)))


class Residual(nn.Module):
    """The way around a sublayer: LayerNorm(x + Sublayer(x)) in the paper (§3.1), or, with
    pre_norm, x + Sublayer(LayerNorm(x)). Dropout acts on the sublayer's output (§5.4)."""

    shape: Shape

    def setup(self) -> None:
        self.norm = nn.LayerNorm(dtype=self.shape.dtype)
        self.drop = nn.Dropout(self.shape.dropout)

    def enter(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        return self.norm(x) if self.shape.pre_norm else x

    def leave(self, x: Array, y: Array, deterministic: bool) -> Float[Array, "b t d"]:
        x = x + self.drop(y, deterministic=deterministic)
        return x if self.shape.pre_norm else self.norm(x)


class EncoderLayer(nn.Module):
    shape: Shape

    def setup(self) -> None:
        self.attention = MultiHeadAttention(self.shape)
        self.feed_forward = FeedForward(self.shape)
        self.residuals = [Residual(self.shape) for _ in range(2)]

    def __call__(self, x: Array, lengths: Array, deterministic: bool) -> Array:
        first, second = self.residuals
        inner = first.enter(x)
        own = self.attention.keys_values(inner)
        y, _ = self.attention(inner, own, lengths, deterministic=deterministic)
        x = first.leave(x, y, deterministic)
        return second.leave(x, self.feed_forward(second.enter(x)), deterministic)


class DecoderLayer(nn.Module):
    shape: Shape

    def setup(self) -> None:
        self.self_attention = MultiHeadAttention(self.shape)
        self.source_attention = MultiHeadAttention(self.shape)
        self.feed_forward = FeedForward(self.shape)
        self.residuals = [Residual(self.shape) for _ in range(3)]

    def source(self, states: Float[Array, "b s d"]) -> KeysValues:
        return self.source_attention.keys_values(states)

    def __call__(
        self,
        x: Float[Array, "b t d"],
        source: KeysValues,
        lengths: Int[Array, " b"],
        written: tuple[Written, Array, Array] | None = None,
        attention: bool = False,
        deterministic: bool = True,
    ) -> tuple[Array, Written | None, Array | None]:
        """x of the whole target, or of the next word of every hypothesis: then with what was
        `written`, the number of those words, and which of them each hypothesis sees."""
        first, second, third = self.residuals
        inner, new = first.enter(x), None
        if written is None:
            own = self.self_attention.keys_values(inner)
            y, _ = self.self_attention(inner, own, causal=True, deterministic=deterministic)
        else:
            y, new = self.self_attention.step(inner, *written)
        x = first.leave(x, y, deterministic)
        y, weights = self.source_attention(
            second.enter(x), source, lengths, weights=attention, deterministic=deterministic
        )
        x = second.leave(x, y, deterministic)
        x = third.leave(x, self.feed_forward(third.enter(x)), deterministic)
        return x, new, weights


class Layers(nn.Module):
    """A layer many times: unrolled, or scanned over stacked weights, which compiles but one.

    `remat` computes activations again in the backward pass instead of keeping them.
    """

    layer: type[nn.Module]
    shape: Shape
    depth: int
    scan: bool = False
    remat: bool = False

    def setup(self) -> None:
        if self.scan:
            self.stacked = self.layer(self.shape)
        else:
            self.unrolled = [self.layer(self.shape) for _ in range(self.depth)]
        self.norm = nn.LayerNorm(dtype=self.shape.dtype) if self.shape.pre_norm else None

    def through(
        self, body: Callable[[Any, Any, Any], tuple[Any, Any]], x: Any, own: Any
    ) -> tuple[Any, Any]:
        """x from layer to layer by `body(layer, x, own part) -> x, output`; all outputs.

        What each layer has of its own is a tuple over layers or, scanned, stacked on axis 1: the
        batch comes first in both.
        """
        body = nn.remat(body, prevent_cse=not self.scan) if self.remat else body
        if self.scan:
            scan = nn.scan(
                body,
                variable_axes={"params": 0, "attention": 0},
                split_rngs={"params": True, "dropout": True},
                in_axes=1,
                out_axes=1,
                length=self.depth,
            )
            return scan(self.stacked, x, own)
        outputs = []
        for i, layer in enumerate(self.unrolled):
            x, output = body(layer, x, None if own is None else own[i])
            outputs.append(output)
        return x, tuple(outputs)

    def finish(self, x: Array) -> Array:
        """Post-norm layers end in a norm; after pre-norm layers one is still due."""
        return x if self.norm is None else self.norm(x)

    def pick(self, outputs: Any, i: int) -> Any:
        """One layer's part of what `through` returned."""
        return jax.tree.map(lambda x: x[:, i], outputs) if self.scan else outputs[i]


@struct.dataclass
class Memory:
    """Keys and values of a batch of source sentences for each decoder layer."""

    source: Any
    lengths: Int[Array, " b"]


@struct.dataclass
class DecoderState:
    """The words written so far, a row a hypothesis, those of a sentence side by side.

    Keys and values stay in the place where they were written: a hypothesis that grew out of one in
    another place reads them there.
    """

    written: Any  # Written, for each layer
    places: Int[Array, "b*k t"]  # of a sentence's k, where a hypothesis' words were written
    t: Int[Array, "b*k"]  # their number, the same everywhere

    def reorder(self, rows: Callable[[Array], Array]) -> Self:
        """Each hypothesis with the `rows` of its parent."""
        return dataclasses.replace(self, places=rows(self.places))


class Transformer(nn.Module):
    """The four calls of a translator: encode, decode, start, step."""

    shape: Shape
    encoder: Layers
    decoder: Layers
    source_embed: Embed
    target_embed: Embed  # the same module where embeddings are shared
    positions: Embed | None  # learned ones; None: sinusoids
    output: Output | None  # None: the target's embeddings
    attention_layer: int  # whose heads' mean stands for the model's attention

    def setup(self) -> None:
        self.drop = nn.Dropout(self.shape.dropout)

    def encode(
        self, source: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> Memory:
        lengths = mask.sum(axis=1)

        def body(layer: EncoderLayer, x: Array, own: None) -> tuple[Array, None]:
            return layer(x, lengths, deterministic), None

        x = self._embed(self.source_embed, source, jnp.arange(source.shape[1]), deterministic)
        states = self.encoder.finish(self.encoder.through(body, x, None)[0])

        def project(layer: DecoderLayer, states: Array, own: None) -> tuple[Array, KeysValues]:
            return states, layer.source(states)

        return Memory(self.decoder.through(project, states, None)[1], lengths)

    def decode(
        self,
        memory: Memory,
        tokens: Int[Array, "b t"],
        deterministic: bool = True,
        attention: bool = False,
    ) -> tuple[Float[Array, "b t d"], Float[Array, "b t s"] | None]:
        """Teacher forcing: features of every next word after the given ones."""

        def body(layer: DecoderLayer, x: Array, source: KeysValues) -> tuple[Array, Any]:
            x, _, weights = layer(
                x, source, memory.lengths, attention=attention, deterministic=deterministic
            )
            return x, weights

        x = self._embed(self.target_embed, tokens, jnp.arange(tokens.shape[1]), deterministic)
        x, weights = self.decoder.through(body, x, memory.source)
        return self.decoder.finish(x), self._summary(weights) if attention else None

    def start(self, memory: Memory, length: int, hypotheses: int = 1) -> DecoderState:
        """Room for `length` words of so many hypotheses a sentence."""
        batch, shape = len(memory.lengths), self.shape
        layers = (self.decoder.depth,) if self.decoder.scan else ()
        room = (batch, *layers, shape.heads, length, hypotheses)
        empty = (
            jnp.zeros((*room, shape.key_features), shape.dtype),
            jnp.zeros((*room, shape.features // shape.heads), shape.dtype),
        )
        written = empty if self.decoder.scan else (empty,) * self.decoder.depth
        rows = batch * hypotheses
        return DecoderState(written, jnp.zeros((rows, length), int), jnp.zeros(rows, int))

    def step(
        self,
        memory: Memory,
        state: DecoderState,
        tokens: Int[Array, " b"],
        attention: bool = False,
    ) -> tuple[Float[Array, "b v"], DecoderState, Float[Array, "b s"] | None]:
        shape = len(memory.lengths), len(tokens) // len(memory.lengths)  # of the hypotheses
        t, (rows, length) = state.t[0], state.places.shape
        own_place = (jnp.arange(rows) % shape[1])[:, None]
        places = jax.lax.dynamic_update_slice_in_dim(state.places, own_place, t, axis=1)
        seen = places[..., None] == jnp.arange(shape[1])[None, None]
        seen &= (jnp.arange(length) <= t)[None, :, None]
        seen = seen.reshape(*shape, -1)

        def body(layer: DecoderLayer, x: Array, own: Any) -> tuple[Array, Any]:
            source, written = own
            x, written, weights = layer(
                x, source, memory.lengths, (written, t, seen), attention=attention
            )
            return x, (written, weights)

        own = (memory.source, state.written)
        if not self.decoder.scan:
            own = tuple(zip(*own, strict=True))
        words, steps = tokens.reshape(shape), state.t.reshape(shape)
        x = self._embed(self.target_embed, words, steps, deterministic=True)
        x, outputs = self.decoder.through(body, x, own)
        written, weights = outputs if self.decoder.scan else zip(*outputs, strict=True)
        features = self.decoder.finish(x).reshape(rows, -1)
        state = DecoderState(written, places, state.t + 1)
        summary = self._summary(weights).reshape(rows, -1) if attention else None
        return logits(features, self.output_kernel()), state, summary

    def output_kernel(self) -> Float[Array, "d v"]:
        return self.target_embed.embedding.T if self.output is None else self.output.kernel

    def _embed(
        self, embed: Embed, tokens: Int[Array, "b t"], positions: Array, deterministic: bool
    ) -> Float[Array, "b t d"]:
        """Embeddings × √d plus positions (§3.4, §3.5), and dropout on the sum (§5.4)."""
        features = self.shape.features
        if self.positions is None:
            places = sinusoids(positions, features).astype(self.shape.dtype)
        else:
            last = self.positions.num_embeddings - 1
            places = self.positions(jnp.minimum(positions, last))  # beyond it, NaN would be read
        x = embed(tokens) * jnp.asarray(math.sqrt(features), self.shape.dtype)
        return self.drop(x + places.reshape(-1, *x.shape[1:]), deterministic=deterministic)

    def _summary(self, weights: Any) -> Float[Array, "b t s"]:
        return self.decoder.pick(weights, self.attention_layer).mean(axis=1)

    @staticmethod
    def source_attention(collection: dict[str, Any]) -> Float[Array, "b n h t s"]:
        """Every layer's and head's weights over the source, from the collection "attention"."""
        layers = collection["decoder"]
        if "stacked" in layers:
            return jnp.moveaxis(layers["stacked"]["source_attention"]["weights"][0], 0, 1)
        names = sorted(layers, key=lambda name: int(name.rpartition("_")[2]))
        every = [layers[name]["source_attention"]["weights"][0] for name in names]
        return jnp.stack(every, axis=1)

    def __call__(self, source: Array, mask: Array, tokens: Array) -> Array:
        """Touches every parameter once, for initialisation."""
        return logits(self.decode(self.encode(source, mask), tokens)[0], self.output_kernel())


def sinusoids(positions: Int[Array, "*p"], features: int) -> Float[Array, "*p d"]:
    """PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos of the same (§3.5)."""
    rates = 10_000.0 ** (-jnp.arange(0, features, 2) / features)
    angles = positions[..., None] * rates.reshape((1,) * positions.ndim + (-1,))
    waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return waves.reshape(*positions.shape, -1)[..., :features]


def make_transformer(
    model: Config, source_size: int, target_size: int, reverse_source: bool
) -> Transformer:
    """The Transformer that `config.model` describes."""
    del reverse_source  # refused by the config's check: there is no reading order to reverse
    dtype, d = jnp.dtype(model.dtype), model.features
    shape = Shape(
        d, model.heads, model.key_features or d // model.heads, model.feed_forward,
        model.norm == "pre", model.dropout, model.attention_dropout, dtype,
    )  # fmt: skip

    def embed(size: int) -> Embed:
        # Features of variance 1 when multiplied by √d, and right for the output they are tied to.
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
    )
