"""A class for a text: self-attentive and pooled sentence embeddings, hierarchical attention."""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.attention import masked_softmax
from models.embedding import Embed
from models.initializers import XAVIER, Initializers, make_initializers
from models.recurrent import Stack

Attention = dict[str, Array]


class SelfAttention(nn.Module):
    """A = softmax(W_2 tanh(W_1 Hᵀ)), M = A H (Lin 2017 eqs. 6 and 7): r hops over one sentence."""

    hops: int  # r
    features: int  # d_a
    start_weights: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, states: Float[Array, "b t h"], mask: Bool[Array, "b t"]
    ) -> tuple[Float[Array, "b r h"], Float[Array, "b r t"]]:
        init = self.start_weights.score
        hidden = nn.Dense(self.features, False, self.dtype, kernel_init=init, name="W_1")(states)
        ratings = nn.Dense(self.hops, False, self.dtype, kernel_init=init, name="W_2")(
            jnp.tanh(hidden)
        )
        weights = masked_softmax(ratings.swapaxes(1, 2).astype(jnp.float32), mask[:, None])
        return jnp.einsum("brt,bth->brh", weights.astype(states.dtype), states), weights


class ContextAttention(nn.Module):
    """u_t = tanh(W h_t + b), α = softmax(u_tᵀ u), s = Σ α_t h_t (Yang 2016 eqs. 5 to 7)."""

    features: int
    start_weights: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, states: Float[Array, "b t h"], mask: Bool[Array, "b t"]
    ) -> tuple[Float[Array, "b h"], Float[Array, "b t"]]:
        init = self.start_weights.score
        hidden = jnp.tanh(
            nn.Dense(self.features, dtype=self.dtype, kernel_init=init, name="W")(states)
        )
        ratings = nn.Dense(1, False, self.dtype, kernel_init=init, name="u")(hidden)[..., 0]
        weights = masked_softmax(ratings.astype(jnp.float32), mask)
        return jnp.einsum("bt,bth->bh", weights.astype(states.dtype), states), weights


def _mean(states: Array, mask: Array, last: Array) -> Array:
    return jnp.sum(states, axis=1) / jnp.maximum(mask.sum(axis=1, keepdims=True), 1)


def _max(states: Array, mask: Array, last: Array) -> Array:
    largest = jnp.max(states, axis=1, where=mask[..., None], initial=-jnp.inf)
    return jnp.where(mask.any(axis=1, keepdims=True), largest, 0)


def _last(states: Array, mask: Array, last: Array) -> Array:
    """The final states of both directions."""
    return last


POOLINGS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "mean": _mean,
    "max": _max,
    "last": _last,
}


class Sentence(nn.Module):
    """Bidirectional states of a sentence, made one vector, then a class."""

    embed: Embed
    stack: Stack
    pooling: str
    attention: SelfAttention
    hidden: int
    classes: int
    dropout: float
    start_weights: Initializers = XAVIER

    @nn.compact
    def __call__(
        self, words: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Float[Array, "b c"], Attention]:
        """Logits, and the weights "hops" [b, r, t] where pooling is attention."""
        mask, weights = words > 0, {}
        states, carries = self.stack(self.embed(words), mask, deterministic=deterministic)
        if self.pooling == "attention":
            hops, weights["hops"] = self.attention(states, mask)
            vector = hops.reshape(len(hops), -1)
        else:
            vector = POOLINGS[self.pooling](states, mask, carries[-1][-1])
        drop, init = nn.Dropout(self.dropout), self.start_weights.kernel
        vector = drop(vector, deterministic=deterministic)
        if self.hidden:
            dense = nn.Dense(self.hidden, kernel_init=init, dtype=vector.dtype, name="hidden")
            vector = drop(nn.relu(dense(vector)), deterministic=deterministic)
        output = nn.Dense(self.classes, kernel_init=init, name="output")
        return output(vector.astype(jnp.float32)), weights


class HAN(nn.Module):
    """Words to sentences to a document, with attention at both levels (Yang 2016)."""

    embed: Embed
    words: Stack
    word_attention: ContextAttention
    sentences: Stack
    sentence_attention: ContextAttention
    classes: int
    dropout: float
    start_weights: Initializers = XAVIER

    @nn.compact
    def __call__(
        self, words: Int[Array, "b s w"], deterministic: bool = True
    ) -> tuple[Float[Array, "b c"], Attention]:
        """Logits, and the weights "words" [b, s, w] and "sentences" [b, s]."""
        batch, count, width = words.shape
        flat = words.reshape(batch * count, width)
        states, _ = self.words(self.embed(flat), flat > 0, deterministic=deterministic)
        vectors, of_words = self.word_attention(states, flat > 0)
        vectors, real = vectors.reshape(batch, count, -1), (words > 0).any(axis=-1)
        states, _ = self.sentences(vectors, real, deterministic=deterministic)
        document, of_sentences = self.sentence_attention(states, real)
        document = nn.Dropout(self.dropout)(document, deterministic=deterministic)
        output = nn.Dense(self.classes, kernel_init=self.start_weights.kernel, name="output")
        weights = {"words": of_words.reshape(words.shape), "sentences": of_sentences}
        return output(document.astype(jnp.float32)), weights


def make_sentence(model: Config, words: int, classes: int) -> Sentence:
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)
    return Sentence(
        Embed(words, model.embedding, dtype=dtype),
        Stack(
            model.cell, model.features, model.layers, bidirectional=True, dropout=model.dropout,
            start_weights=init, dtype=dtype,
        ),
        model.pooling,
        SelfAttention(model.hops, model.attention_features, init, dtype),
        model.hidden,
        classes,
        model.dropout,
        init,
    )  # fmt: skip


def make_han(model: Config, words: int, classes: int) -> HAN:
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)

    def stack() -> Stack:
        return Stack(
            model.cell, model.features, 1, bidirectional=True, dropout=model.dropout,
            start_weights=init, dtype=dtype,
        )  # fmt: skip

    def attention() -> ContextAttention:
        return ContextAttention(model.attention_features, init, dtype)

    embed = Embed(words, model.embedding, dtype=dtype)
    return HAN(embed, stack(), attention(), stack(), attention(), classes, model.dropout, init)
