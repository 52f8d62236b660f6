"""Text classifiers: pooled or self-attentive sentence embeddings, and hierarchical attention."""

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.attention import NamedWeights, masked_softmax
from models.dropout import Dropout
from models.embedding import Embed
from models.initializers import XAVIER, Initializers, make_initializers
from models.recurrent import Stack
from models.replacement import replaced


class SelfAttention(nn.Module):
    """Self-attentive sentence embedding with r attention hops (Lin 2017 eqs. 6 and 7).

    A = softmax(W_2 tanh(W_1 Hᵀ)), M = A H, where H has one row (state) per token. A hop is one row
    of A: one set of attention weights over the tokens.
    """

    hops: int  # r, the number of hops
    features: int  # d_a, the width of the hidden layer
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, states: Float[Array, "b t h"], mask: Bool[Array, "b t"]
    ) -> tuple[Float[Array, "b r h"], Float[Array, "b r t"]]:
        init = self.initializers.score
        hidden = nn.Dense(self.features, False, self.dtype, kernel_init=init, name="W_1")(states)
        scores = nn.Dense(self.hops, False, self.dtype, kernel_init=init, name="W_2")(
            jnp.tanh(hidden)
        )
        weights = masked_softmax(scores.swapaxes(1, 2).astype(jnp.float32), mask[:, None])
        weights = replaced(weights, mask[:, None])
        return jnp.einsum("brt,bth->brh", weights.astype(states.dtype), states), weights


class ContextAttention(nn.Module):
    """Attention with a learned context vector u as its query (Yang 2016 eqs. 5 to 7).

    For the states h_t: u_t = tanh(W h_t + b), α_t = softmax_t(u_tᵀ u), s = Σ_t α_t h_t.
    """

    features: int
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, states: Float[Array, "b t h"], mask: Bool[Array, "b t"]
    ) -> tuple[Float[Array, "b h"], Float[Array, "b t"]]:
        init = self.initializers.score
        hidden = jnp.tanh(
            nn.Dense(self.features, dtype=self.dtype, kernel_init=init, name="W")(states)
        )
        scores = nn.Dense(1, False, self.dtype, kernel_init=init, name="u")(hidden)[..., 0]
        weights = replaced(masked_softmax(scores.astype(jnp.float32), mask), mask)
        return jnp.einsum("bt,bth->bh", weights.astype(states.dtype), states), weights


class Sentence(nn.Module):
    """Classifier that pools the states of a bidirectional recurrent stack into one vector."""

    embed: Embed
    stack: Stack
    pooling: str
    attention: SelfAttention
    hidden: int  # width of the hidden layer before the output layer; 0: no hidden layer
    classes: int
    dropout: float
    initializers: Initializers = XAVIER

    @nn.compact
    def __call__(
        self, words: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Float[Array, "b c"], NamedWeights]:
        """Return logits and a dictionary of attention weights.

        With attention pooling, the entry "hops" has the axes [text, hop, token]. With other
        poolings, the dictionary is empty.
        """
        mask = words > 0
        states, carries = self.stack(self.embed(words), mask, deterministic=deterministic)
        vector, weights = POOLINGS[self.pooling](self, states, mask, carries[-1][-1])
        drop, init = Dropout(self.dropout), self.initializers.kernel
        vector = drop(vector, deterministic=deterministic)
        if self.hidden:
            dense = nn.Dense(self.hidden, kernel_init=init, dtype=vector.dtype, name="hidden")
            vector = drop(nn.relu(dense(vector)), deterministic=deterministic)
        output = nn.Dense(self.classes, kernel_init=init, name="output")
        return output(vector.astype(jnp.float32)), weights


Pooled = tuple[Float[Array, "b k"], NamedWeights]


def _attention(
    model: "Sentence", states: Float[Array, "b t h"], mask: Bool[Array, "b t"], last: Array
) -> Pooled:
    hops, weights = model.attention(states, mask)
    return hops.reshape(hops.shape[0], -1), {"hops": weights}


def _mean(
    model: "Sentence", states: Float[Array, "b t h"], mask: Bool[Array, "b t"], last: Array
) -> Pooled:
    return jnp.sum(states, axis=1) / jnp.maximum(mask.sum(axis=1, keepdims=True), 1), {}


def _max(
    model: "Sentence", states: Float[Array, "b t h"], mask: Bool[Array, "b t"], last: Array
) -> Pooled:
    largest = jnp.max(states, axis=1, where=mask[..., None], initial=-jnp.inf)
    return jnp.where(mask.any(axis=1, keepdims=True), largest, 0), {}


def _last(
    model: "Sentence", states: Float[Array, "b t h"], mask: Bool[Array, "b t"], last: Array
) -> Pooled:
    """Return the final states of both directions, which the stack has concatenated."""
    return last, {}


POOLINGS: dict[str, Callable[..., Pooled]] = {
    "attention": _attention,
    "mean": _mean,
    "max": _max,
    "last": _last,
}


class HAN(nn.Module):
    """Hierarchical attention network for document classification (Yang 2016).

    The network attends to the words of each sentence, and then to the sentences of the document.
    """

    embed: Embed
    words: Stack
    word_attention: ContextAttention
    sentences: Stack
    sentence_attention: ContextAttention
    classes: int
    dropout: float
    initializers: Initializers = XAVIER

    @nn.compact
    def __call__(
        self, words: Int[Array, "b s w"], deterministic: bool = True
    ) -> tuple[Float[Array, "b c"], NamedWeights]:
        """Return logits and a dictionary of attention weights.

        The entry "words" has the axes [text, sentence, word], "sentences" has [text, sentence].
        """
        batch, count, width = words.shape
        flat = words.reshape(batch * count, width)
        states, _ = self.words(self.embed(flat), flat > 0, deterministic=deterministic)
        vectors, word_weights = self.word_attention(states, flat > 0)
        vectors, real = vectors.reshape(batch, count, -1), (words > 0).any(axis=-1)
        states, _ = self.sentences(vectors, real, deterministic=deterministic)
        document, sentence_weights = self.sentence_attention(states, real)
        document = Dropout(self.dropout)(document, deterministic=deterministic)
        output = nn.Dense(self.classes, kernel_init=self.initializers.kernel, name="output")
        weights = {"words": word_weights.reshape(words.shape), "sentences": sentence_weights}
        return output(document.astype(jnp.float32)), weights


def make_sentence(model: Config, words: int, classes: int) -> Sentence:
    """Build a sentence classifier from `config.model`, for a vocabulary of `words` tokens."""
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)
    return Sentence(
        Embed(words, model.embedding, dtype=dtype),
        Stack(
            model.cell, model.features, model.layers, bidirectional=True, dropout=model.dropout,
            initializers=init, dtype=dtype,
        ),
        model.pooling,
        SelfAttention(model.hops, model.attention_features, init, dtype),
        model.hidden,
        classes,
        model.dropout,
        init,
    )  # fmt: skip


def make_han(model: Config, words: int, classes: int) -> HAN:
    """Build a hierarchical classifier from `config.model`, for a vocabulary of `words` tokens."""
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)

    def stack() -> Stack:
        return Stack(
            model.cell, model.features, 1, bidirectional=True, dropout=model.dropout,
            initializers=init, dtype=dtype,
        )  # fmt: skip

    def attention() -> ContextAttention:
        return ContextAttention(model.attention_features, init, dtype)

    embed = Embed(words, model.embedding, dtype=dtype)
    return HAN(embed, stack(), attention(), stack(), attention(), classes, model.dropout, init)
