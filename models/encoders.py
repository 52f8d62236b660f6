"""From source tokens to the memory that a decoder reads."""

from typing import Any

import flax.linen as nn
from flax import struct
from jax import Array
from jaxtyping import Bool, Float, Int, Shaped

from models.cells import Carry
from models.embedding import Embed
from models.recurrent import Stack


@struct.dataclass
class Memory:
    """What is known of a batch of source sentences; every leaf has the batch as its first axis."""

    carries: tuple[Carry, ...]  # the decoder's first carries, a layer each
    summary: Float[Array, "b k"]  # the encoder's last hidden state, Cho 2014's c
    source: Any  # the Source that attention reads; None without attention

    def by_sentence(self, x: Shaped[Array, "b*k ..."]) -> Shaped[Array, "b k ..."]:
        """Rows of hypotheses, those of a sentence side by side, as the queries that it gets."""
        return x.reshape(len(self.summary), -1, *x.shape[1:])


class RecurrentEncoder(nn.Module):
    """Embedding and a stack of recurrent layers; states are in the order of the source.

    A reversed source (Sutskever 2014) is a stack that reads from the end: its states stay where
    their words are, so that windows, alignments and pictures need not know.
    """

    embed: Embed
    stack: Stack

    def __call__(
        self, tokens: Int[Array, "b s"], mask: Bool[Array, "b s"], deterministic: bool = True
    ) -> tuple[Float[Array, "b s k"], tuple[Carry, ...]]:
        return self.stack(self.embed(tokens), mask, deterministic=deterministic)
