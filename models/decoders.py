"""From a memory to features of the next word, for a whole sentence or a step at a time.

A decoder answers `start`, `step` and `decode`; `decode` with the reference as input (teacher
forcing) and repeated `step`s with the same words give the same features and attention.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.nn.initializers import Initializer
from jaxtyping import Float, Int

from models.attention import Global
from models.cells import Carry
from models.encoders import Memory
from models.recurrent import Stack


@struct.dataclass
class DecoderState:
    """What decoding carries from step to step; the batch is every leaf's first axis."""

    carries: tuple[Carry, ...]
    feed: Float[Array, "b h"] | None = None  # h̃ of the last step, under input feeding


class PlainDecoder(nn.Module):
    """A stack of cells that knows the source by its first state only (Sutskever 2014)."""

    embed: nn.Embed
    stack: Stack

    def keys(self, states: Float[Array, "b s k"]) -> Array | None:
        return None

    def start(self, memory: Memory) -> DecoderState:
        return DecoderState(memory.carries)

    def step(
        self,
        memory: Memory,
        state: DecoderState,
        tokens: Int[Array, " b"],
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b h"], DecoderState, Array | None]:
        features, carries = self.stack.step(state.carries, self.embed(tokens), deterministic)
        return features, DecoderState(carries), None

    def decode(
        self, memory: Memory, tokens: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Float[Array, "b t h"], Array | None]:
        return self._run(memory, tokens, deterministic), None

    def _run(self, memory: Memory, tokens: Array, deterministic: bool) -> Array:
        # No mask: what follows a sentence's end cannot reach what stands before it.
        everything = jnp.ones(tokens.shape, bool)
        x = self.embed(tokens)
        return self.stack(x, everything, memory.carries, deterministic)[0]


class LuongDecoder(PlainDecoder):
    """Attention after the recurrent step: h_t → a_t → c_t → h̃_t = tanh(W_c [c_t; h_t]) (eq. 5).

    With input feeding (§3.3) h̃_{t−1} is part of the next input, so steps cannot be taken together;
    without it, attention is computed for all steps at once.
    """

    attention: Global
    input_feeding: bool
    kernel_init: Initializer

    def setup(self) -> None:
        stack = self.stack
        self.W_c = nn.Dense(stack.features, False, stack.dtype, kernel_init=self.kernel_init)

    def keys(self, states: Float[Array, "b s k"]) -> Float[Array, "b s d"]:
        return self.attention.keys(states)

    def start(self, memory: Memory) -> DecoderState:
        if not self.input_feeding:
            return DecoderState(memory.carries)
        shape = (len(memory.mask), self.stack.features)
        return DecoderState(memory.carries, jnp.zeros(shape, self.stack.dtype))

    def attend(self, memory: Memory, h: Float[Array, "b t h"]) -> tuple[Array, Array]:
        context, weights = self.attention(h, memory.keys, memory.states, memory.mask)
        return jnp.tanh(self.W_c(jnp.concatenate([context, h], axis=-1))), weights

    def step(
        self, memory: Memory, state: DecoderState, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, DecoderState, Array]:
        return self._advance(memory, state, self.embed(tokens), deterministic)

    def _advance(
        self, memory: Memory, state: DecoderState, x: Float[Array, "b e"], deterministic: bool
    ) -> tuple[Array, DecoderState, Array]:
        if state.feed is not None:
            x = jnp.concatenate([x, state.feed], axis=-1)
        h, carries = self.stack.step(state.carries, x, deterministic)
        attentional, weights = self.attend(memory, h[:, None])
        attentional, weights = attentional[:, 0], weights[:, 0]
        feed = attentional if self.input_feeding else None
        return attentional, DecoderState(carries, feed), weights

    def decode(
        self, memory: Memory, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, Array]:
        if not self.input_feeding:
            return self.attend(memory, self._run(memory, tokens, deterministic))

        def step(decoder: Any, state: DecoderState, x: Array) -> tuple[DecoderState, Any]:
            features, state, weights = decoder._advance(memory, state, x, deterministic)
            return state, (features, weights)

        scan = nn.scan(
            step,
            variable_broadcast="params",
            split_rngs={"params": False, "dropout": True},
            in_axes=1,
            out_axes=1,
        )
        return scan(self, self.start(memory), self.embed(tokens))[1]
