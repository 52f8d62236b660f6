"""Recurrent encoders, from source tokens to the memory that a decoder reads."""

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
    """An encoded batch of source sentences; the batch is the first axis of every leaf."""

    carries: tuple[Carry, ...]  # initial carries of the decoder's layers
    summary: Float[Array, "b k"]  # last hidden state of the encoder, Cho 2014's c
    source: Any  # the Source of the decoder's attention, or None

    def by_sentence(self, x: Shaped[Array, "r ..."]) -> Shaped[Array, "b k ..."]:
        """Turn rows of hypotheses, grouped by sentence, into k queries per sentence."""
        return x.reshape(len(self.summary), -1, *x.shape[1:])


class RecurrentEncoder(nn.Module):
    """An embedding and a stack of recurrent layers.

    For a reversed source (Sutskever 2014) the stack reads from the end, and states stay at the
    positions of their tokens, so that windows, alignments and pictures are not affected.
    """

    embed: Embed
    stack: Stack

    def __call__(
        self, tokens: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> tuple[Float[Array, "b s k"], tuple[Carry, ...]]:
        return self.stack(self.embed(tokens), mask, deterministic=deterministic)
