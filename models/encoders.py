"""Recurrent encoders, which turn source tokens into the memory that a decoder reads."""

from typing import Any

import flax.linen as nn
from flax import struct
from jax import Array
from jaxtyping import Bool, Float, Int, Shaped

from models.cells import Carry
from models.embedding import Embed
from models.recurrent import Stack


@struct.dataclass
class RecurrentMemory:
    """Encoded batch of source sentences; the batch is the first axis of every array."""

    carries: tuple[Carry, ...]  # initial carries of the decoder's layers
    summary: Float[Array, "b k"]  # final hidden state of the encoder, c in Cho 2014
    source: Any  # keys, values and mask (`attention.Source`); None without attention

    def by_sentence(self, x: Shaped[Array, "r ..."]) -> Shaped[Array, "b k ..."]:
        """Reshape an array with one row per hypothesis to [sentence, hypothesis, ...]."""
        return x.reshape(self.summary.shape[0], -1, *x.shape[1:])


class RecurrentEncoder(nn.Module):
    """Token embedding followed by a stack of recurrent layers.

    For a reversed source (Sutskever 2014), the stack reads the tokens from the end. Each state
    stays at the position of its token, so attention windows, word alignments and plots are the same
    as for a source that is not reversed.
    """

    embed: Embed
    stack: Stack

    def __call__(
        self, tokens: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> tuple[Float[Array, "b s k"], tuple[Carry, ...]]:
        return self.stack(self.embed(tokens), mask, deterministic=deterministic)
