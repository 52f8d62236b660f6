"""Wirings: where the context goes between the words read and the next word's features.

A decoder answers `start`, `step` and `decode`; `decode` with the reference as input (teacher
forcing) and repeated `step`s with the same words give the same features and attention.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.nn.initializers import Initializer
from jaxtyping import Bool, Float, Int

from models.attention import Alignment, Source
from models.cells import Carry
from models.embedding import Embed
from models.encoders import Memory
from models.recurrent import Stack
from models.scan import scan_module


@struct.dataclass
class DecoderState:
    """What decoding carries from step to step, a row a hypothesis: one a sentence in training."""

    carries: tuple[Carry, ...]
    t: Int[Array, " b"]  # words written so far
    feed: Float[Array, "b h"] | None = None  # h̃ of the last step, under input feeding


class PlainDecoder(nn.Module):
    """A stack of cells that knows the source by its first state only (Sutskever 2014)."""

    embed: Embed
    stack: Stack

    def source(
        self, states: Float[Array, "b s k"], mask: Bool[Array, "b s"], deterministic: bool
    ) -> Source | None:
        return None

    def start(self, memory: Memory) -> DecoderState:
        carries = self.stack.cast(memory.carries)
        return DecoderState(carries, jnp.zeros(len(memory.summary), int))

    def step(
        self,
        memory: Memory,
        state: DecoderState,
        tokens: Int[Array, " b"],
        deterministic: bool = True,
    ) -> tuple[Float[Array, "b h"], DecoderState, Array | None]:
        features, carries = self.stack.step(
            state.carries, self.embed(tokens), deterministic=deterministic
        )
        return features, DecoderState(carries, state.t + 1), None

    def decode(
        self, memory: Memory, tokens: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Float[Array, "b t h"], Array | None]:
        return self.run(memory, self.embed(tokens), deterministic), None

    def run(self, memory: Memory, x: Float[Array, "b t i"], deterministic: bool) -> Array:
        # No mask: what follows a sentence's end cannot reach what stands before it.
        everything = jnp.ones(x.shape[:2], bool)
        return self.stack(x, everything, self.start(memory).carries, deterministic)[0]


class Maxout(nn.Module):
    """The larger of each two linear units (Goodfellow 2013), the output layer of Cho 2014."""

    features: int
    kernel_init: Initializer
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, *inputs: Float[Array, "*b _"]) -> Float[Array, "*b f"]:
        x = jnp.concatenate(inputs, axis=-1)
        x = nn.Dense(2 * self.features, True, self.dtype, kernel_init=self.kernel_init)(x)
        return x.reshape(*x.shape[:-1], self.features, 2).max(axis=-1)


class ChoDecoder(PlainDecoder):
    """c, the encoder's last state, at every step: h_t = f(h_{t−1}, y_{t−1}, c), and maxout over
    (h_t, y_{t−1}, c) (Cho 2014 §2.2)."""

    readout: Maxout

    def step(
        self, memory: Memory, state: DecoderState, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, DecoderState, None]:
        y = self.embed(tokens)
        c = jnp.repeat(memory.summary, len(y) // len(memory.summary), axis=0)
        x = jnp.concatenate([y, c], axis=-1)
        h, carries = self.stack.step(state.carries, x, deterministic=deterministic)
        return self.readout(h, y, c), DecoderState(carries, state.t + 1), None

    def decode(
        self, memory: Memory, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, None]:
        y = self.embed(tokens)
        c = jnp.broadcast_to(memory.summary[:, None], (*y.shape[:2], memory.summary.shape[-1]))
        h = self.run(memory, jnp.concatenate([y, c], axis=-1), deterministic)
        return self.readout(h, y, c), None


class BahdanauDecoder(PlainDecoder):
    """Attention before the recurrent step: s_{i−1} → α_i → c_i → s_i, and maxout over
    (s_i, y_{i−1}, c_i) (Bahdanau 2015 §3.1, A.2.2)."""

    attention: Alignment
    readout: Maxout

    def source(self, states: Array, mask: Array, deterministic: bool) -> Source:
        return self.attention.source(states, mask, deterministic)

    def step(
        self, memory: Memory, state: DecoderState, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, DecoderState, Array]:
        y = self.embed(tokens)
        state, (h, c, weights) = self.advance(memory, state, y, deterministic)
        return self.readout(h, y, c), state, weights

    def advance(
        self, memory: Memory, state: DecoderState, y: Float[Array, "b e"], deterministic: bool
    ) -> tuple[DecoderState, tuple[Array, Array, Array]]:
        last = state.carries[-1][-1]
        context, weights = self.attention(
            memory.by_sentence(last), memory.source, memory.by_sentence(state.t), deterministic
        )
        c, weights = (x.reshape(len(y), -1) for x in (context, weights))
        h, carries = self.stack.step(state.carries, y, c, deterministic)
        return DecoderState(carries, state.t + 1), (h, c, weights)

    def decode(
        self, memory: Memory, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, Array]:
        def step(decoder: Any, state: DecoderState, y: Array) -> tuple[DecoderState, Any]:
            return decoder.advance(memory, state, y, deterministic)

        y = self.embed(tokens)
        _, (h, c, weights) = scan_module(step, self, self.start(memory), y)
        return self.readout(h, y, c), weights  # once for all steps, outside the scan


class LuongDecoder(PlainDecoder):
    """Attention after the recurrent step: h_t → a_t → c_t → h̃_t = tanh(W_c [c_t; h_t]) (eq. 5).

    With input feeding (§3.3) h̃_{t−1} is part of the next input, so steps cannot be taken together;
    without it, attention is computed for all steps at once.
    """

    attention: Alignment
    input_feeding: bool
    combine_init: Initializer

    def setup(self) -> None:
        stack = self.stack
        self.W_c = nn.Dense(stack.features, False, stack.dtype, kernel_init=self.combine_init)

    def source(self, states: Array, mask: Array, deterministic: bool) -> Source:
        return self.attention.source(states, mask, deterministic)

    def start(self, memory: Memory) -> DecoderState:
        state = super().start(memory)
        if not self.input_feeding:
            return state
        shape = (len(memory.summary), self.stack.features)
        return dataclasses.replace(state, feed=jnp.zeros(shape, self.stack.dtype))

    def attend(
        self, memory: Memory, h: Float[Array, "b t h"], steps: Array, deterministic: bool
    ) -> tuple[Array, Array]:
        context, weights = self.attention(h, memory.source, steps, deterministic)
        return jnp.tanh(self.W_c(jnp.concatenate([context, h], axis=-1))), weights

    def step(
        self, memory: Memory, state: DecoderState, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, DecoderState, Array]:
        return self.advance(memory, state, self.embed(tokens), deterministic)

    def advance(
        self, memory: Memory, state: DecoderState, x: Float[Array, "b e"], deterministic: bool
    ) -> tuple[Array, DecoderState, Array]:
        h, carries = self.stack.step(state.carries, x, state.feed, deterministic)
        asked = self.attend(
            memory, memory.by_sentence(h), memory.by_sentence(state.t), deterministic
        )
        attentional, weights = (x.reshape(len(h), -1) for x in asked)
        feed = attentional if self.input_feeding else None
        return attentional, DecoderState(carries, state.t + 1, feed), weights

    def decode(
        self, memory: Memory, tokens: Array, deterministic: bool = True
    ) -> tuple[Array, Array]:
        if not self.input_feeding:
            steps = jnp.broadcast_to(jnp.arange(tokens.shape[1])[None], tokens.shape)
            h = self.run(memory, self.embed(tokens), deterministic)
            return self.attend(memory, h, steps, deterministic)

        def step(decoder: Any, state: DecoderState, x: Array) -> tuple[DecoderState, Any]:
            features, state, weights = decoder.advance(memory, state, x, deterministic)
            return state, (features, weights)

        return scan_module(step, self, self.start(memory), self.embed(tokens))[1]
