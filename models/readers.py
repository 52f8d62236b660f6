"""Readers: models that answer a cloze query with a word of the passage."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from configs.base import Config
from models.attention import NamedWeights, masked_softmax
from models.embedding import Embed
from models.initializers import make_initializers
from models.recurrent import Stack
from models.replacement import replaced


class Reader(nn.Module):
    """Base class of readers.

    The passage and the query are read with the same embedding and the same bidirectional stack. A
    reader returns attention weights s over the passage, which sum to 1. The probability of a word
    is the sum of s over its occurrences.
    """

    embed: Embed
    stack: Stack

    def __call__(
        self, passage: Int[Array, "b n"], query: Int[Array, "b m"], deterministic: bool = True
    ) -> tuple[Float[Array, "b n"], NamedWeights]:
        """Return s, and a dictionary of the attention weights from which s is computed."""
        raise NotImplementedError

    def read(
        self, words: Int[Array, "b n"], deterministic: bool
    ) -> tuple[Float[Array, "b n k"], Float[Array, "b k"]]:
        """Encode a text; return its states and the final states of both directions."""
        embedded = self.embed(words)
        states, carries = self.stack(embedded, words > 0, deterministic=deterministic)
        return states, carries[-1][-1]


class AttentionSum(Reader):
    """Attention sum reader: s = softmax(passage states · final query state) (Kadlec 2016)."""

    def __call__(
        self, passage: Int[Array, "b n"], query: Int[Array, "b m"], deterministic: bool = True
    ) -> tuple[Float[Array, "b n"], NamedWeights]:
        states, _ = self.read(passage, deterministic)
        _, query_states = self.read(query, deterministic)
        scores = jnp.einsum("bnh,bh->bn", states, query_states, preferred_element_type=jnp.float32)
        return replaced(masked_softmax(scores, passage > 0), passage > 0), {}


class AttentionOverAttention(Reader):
    """Attention-over-attention reader: s = αᵀβ (Cui 2017 eqs. 5 to 9).

    Both use the scores D Qᵀ of passage states D and query states Q. α is a softmax over the passage
    for every query word. β is the importance of each query word: a softmax over the query for every
    passage word, averaged over the passage.
    """

    def __call__(
        self, passage: Int[Array, "b n"], query: Int[Array, "b m"], deterministic: bool = True
    ) -> tuple[Float[Array, "b n"], NamedWeights]:
        document, _ = self.read(passage, deterministic)
        query_states, _ = self.read(query, deterministic)
        scores = jnp.einsum(
            "bnh,bmh->bmn", document, query_states, preferred_element_type=jnp.float32
        )
        real = (passage > 0)[:, None]
        alpha = replaced(masked_softmax(scores, real), real)
        query_weights = masked_softmax(scores.swapaxes(1, 2), (query > 0)[:, None])
        length = jnp.maximum(real.sum(axis=-1), 1)
        beta = jnp.sum(query_weights, axis=1, where=real.swapaxes(1, 2)) / length
        # The weights s are an elementwise product and a sum, because a matrix product could have a
        # lower precision.
        return jnp.sum(alpha * beta[..., None], axis=1), {"alpha": alpha, "beta": beta}


READERS: dict[str, type[Reader]] = {
    "attention_sum": AttentionSum,
    "attention_over_attention": AttentionOverAttention,
}


def make_reader(model: Config, words: int) -> Reader:
    """Build a reader from `config.model`, for a vocabulary of `words` tokens."""
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)
    stack = Stack(
        model.cell, model.features, model.layers, bidirectional=True, dropout=model.dropout,
        initializers=init, dtype=dtype,
    )  # fmt: skip
    return READERS[model.reader](Embed(words, model.embedding, dtype=dtype), stack)
