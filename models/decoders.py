"""Decoder types: recurrent decoders that differ in how they use the context vector.

`decode` reads a whole target sentence at once (teacher forcing), and `step` reads one token per
hypothesis. Both return the same features and attention weights for the same tokens.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import struct
from jax import Array
from jax.nn.initializers import Initializer
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from configs.schema.seq2seq import memory_width
from models.attention import Alignment, Attended, Source, make_alignment
from models.cells import Carry
from models.embedding import Embed
from models.encoders import RecurrentMemory
from models.initializers import with_zeros
from models.output import Features
from models.recurrent import Stack
from models.scan import scan_module


@struct.dataclass
class RecurrentState:
    """Decoder state between two time steps, with one row per hypothesis."""

    carries: tuple[Carry, ...]
    t: Int[Array, " r"]  # number of tokens generated so far
    feed: Float[Array, "r h"] | None = None  # attentional state h̃_{t−1} for input feeding


class Maxout(nn.Module):
    """Maxout layer over pairs of linear units (Goodfellow 2013), used by Cho 2014."""

    features: int
    kernel_init: Initializer
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, *inputs: Float[Array, "*b _"]) -> Float[Array, "*b f"]:
        x = jnp.concatenate(inputs, axis=-1)
        x = nn.Dense(2 * self.features, True, self.dtype, kernel_init=self.kernel_init)(x)
        return x.reshape(*x.shape[:-1], self.features, 2).max(axis=-1)


def make_maxout(model: Config, stack: Stack) -> Maxout:
    """Build the maxout layer of a decoder from `config.model`."""
    return Maxout(model.decoder.maxout, stack.initializers.kernel, stack.dtype)


class PlainDecoder(nn.Module):
    """Decoder that depends on the source only through its initial state (Sutskever 2014)."""

    embed: Embed
    stack: Stack

    @classmethod
    def from_config(cls, model: Config, embed: Embed, stack: Stack) -> "PlainDecoder":
        """Build the decoder from `config.model`."""
        return cls(embed, stack)

    @property
    def output_width(self) -> int:
        """Width of the features that the output layer reads."""
        return self.stack.features

    def source(self, states: Float[Array, "b s k"], mask: Bool[Array, "b s"]) -> Source | None:
        """Return the attention keys and values of the encoder states; None without attention."""
        return None

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """Return the initial state, with one row per sentence."""
        carries = self.stack.cast(memory.carries)
        return RecurrentState(carries, jnp.zeros(memory.summary.shape[0], int))

    def step(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        tokens: Int[Array, " r"],
        deterministic: bool = True,
    ) -> tuple[Features, RecurrentState, Float[Array, "r s"] | None]:
        """Read one token per hypothesis.

        Return the features that predict the next tokens, the new state and the attention weights.
        """
        h, carries = self.stack.step(state.carries, self.embed(tokens), deterministic=deterministic)
        return Features(h), RecurrentState(carries, state.t + 1), None

    def decode(
        self, memory: RecurrentMemory, tokens: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Features, Float[Array, "b t s"] | None]:
        """Read whole target sentences; return the features and attention weights of all positions.

        The features at a position predict the next token.
        """
        return Features(self.run(memory, self.embed(tokens), deterministic)), None

    def run(
        self, memory: RecurrentMemory, x: Float[Array, "b t i"], deterministic: bool
    ) -> Float[Array, "b t h"]:
        """Run the stack over whole target sentences, starting from the initial state."""
        # The mask has no padding, because padding follows the sentence and cannot affect the states
        # of earlier tokens.
        mask = jnp.ones(x.shape[:2], bool)
        return self.stack(x, mask, self.start(memory).carries, deterministic)[0]


class ChoDecoder(PlainDecoder):
    """Decoder that reads the final encoder state c at every time step (Cho 2014 §2.2).

    h_t = f(h_{t−1}, y_{t−1}, c), followed by a maxout layer over (h_t, y_{t−1}, c), where h_t is
    the decoder state and y_{t−1} the embedding of the previous target token.
    """

    readout: Maxout

    @classmethod
    def from_config(cls, model: Config, embed: Embed, stack: Stack) -> "PlainDecoder":
        return cls(embed, stack, make_maxout(model, stack))

    @property
    def output_width(self) -> int:
        return self.readout.features

    def step(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        tokens: Int[Array, " r"],
        deterministic: bool = True,
    ) -> tuple[Features, RecurrentState, None]:
        y = self.embed(tokens)
        c = jnp.repeat(memory.summary, y.shape[0] // memory.summary.shape[0], axis=0)
        x = jnp.concatenate([y, c], axis=-1)
        h, carries = self.stack.step(state.carries, x, deterministic=deterministic)
        return Features(self.readout(h, y, c)), RecurrentState(carries, state.t + 1), None

    def decode(
        self, memory: RecurrentMemory, tokens: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Features, None]:
        y = self.embed(tokens)
        c = jnp.broadcast_to(memory.summary[:, None], (*y.shape[:2], memory.summary.shape[-1]))
        h = self.run(memory, jnp.concatenate([y, c], axis=-1), deterministic)
        return Features(self.readout(h, y, c)), None


class BahdanauDecoder(PlainDecoder):
    """Decoder with attention before the recurrent step (Bahdanau 2015 §3.1, A.2.2).

    The previous state s_{i−1} gives attention weights α_i, a context vector c_i and the state s_i.
    A maxout layer over (s_i, y_{i−1}, c_i) follows; y_{i−1} embeds the previous target token. The
    maxout layer of A.2.2 reads s_{i−1} instead of s_i (docs/differences.md).
    """

    attention: Alignment
    readout: Maxout

    @classmethod
    def from_config(cls, model: Config, embed: Embed, stack: Stack) -> "PlainDecoder":
        attention = make_alignment(model, stack.initializers, stack.dtype)
        return cls(embed, stack, attention, make_maxout(model, stack))

    @property
    def output_width(self) -> int:
        return self.readout.features

    def source(self, states: Float[Array, "b s k"], mask: Bool[Array, "b s"]) -> Source:
        return self.attention.source(states, mask)

    def step(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        tokens: Int[Array, " r"],
        deterministic: bool = True,
    ) -> tuple[Features, RecurrentState, Float[Array, "r s"]]:
        y = self.embed(tokens)
        state, (h, attended) = self.advance(memory, state, y, deterministic)
        return self.read_out(h, y, attended), state, attended.weights

    def advance(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        y: Float[Array, "r e"],
        deterministic: bool,
    ) -> tuple[RecurrentState, tuple[Float[Array, "r *n h"], Attended]]:
        """Compute one time step without the maxout layer.

        Return the new state, and s_i with the result of attention, in rows of hypotheses.
        """
        query = state.carries[-1][-1]
        by_sentence = self.attention(
            memory.by_sentence(query), memory.source, memory.by_sentence(state.t), deterministic
        )
        attended = _by_row(by_sentence, y.shape[0])
        c = attended.contexts
        if c.ndim == 2:
            h, carries = self.stack.step(state.carries, y, c, deterministic)
        else:
            h, carries = self.step_with_each(state.carries, y, c, deterministic)
        return RecurrentState(carries, state.t + 1), (h, attended)

    def step_with_each(
        self,
        carries: tuple[Carry, ...],
        y: Float[Array, "r e"],
        contexts: Float[Array, "r n k"],
        deterministic: bool,
    ) -> tuple[Float[Array, "r n h"], tuple[Carry, ...]]:
        """Compute one step of the stack per context, with the same dropout masks for all contexts.

        Return the outputs of all steps, and the carries of the step with the first context.
        """

        def step(stack: Stack, c: Float[Array, "r k"]) -> tuple[Array, tuple[Carry, ...]]:
            return stack.step(carries, y, c, deterministic)

        rngs: dict[Any, bool] = {"params": False, "dropout": False}
        mapped = nn.vmap(step, {"params": None}, split_rngs=rngs, in_axes=1, out_axes=1)
        h, all_carries = mapped(self.stack, contexts)
        return h, jax.tree.map(lambda x: x[:, 0], all_carries)

    def decode(
        self, memory: RecurrentMemory, tokens: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Features, Float[Array, "b t s"]]:
        def step(decoder: Any, state: RecurrentState, y: Array) -> tuple[RecurrentState, Any]:
            return decoder.advance(memory, state, y, deterministic)

        y = self.embed(tokens)
        _, (h, attended) = scan_module(step, self, self.start(memory), y)
        # The maxout layer is applied after the scan: one matrix product for all positions is faster
        # than one per time step.
        return self.read_out(h, y, attended), attended.weights

    def read_out(
        self, h: Float[Array, "*b h"], y: Float[Array, "... e"], attended: Attended
    ) -> Features:
        """Apply the maxout layer to states, embeddings and contexts, one or n of them per token."""
        c = attended.contexts
        if y.ndim < c.ndim:
            y = jnp.broadcast_to(y[..., None, :], (*c.shape[:-1], y.shape[-1]))
        return Features(self.readout(h, y, c), attended.mixture)


def _by_row(by_sentence: Any, rows: int) -> Any:
    """Reshape arrays from [sentences, hypotheses, ...] to one row per hypothesis."""
    return jax.tree.map(lambda x: x.reshape(rows, *x.shape[2:]), by_sentence)


class Combine(nn.Module):
    """Linear layer W_c [c; h] over a context vector c and a decoder state h, without a bias.

    A context vector is a weighted sum of values. The values are therefore multiplied by the first
    rows of W_c once per sentence, and context vectors need no product at every time step.
    """

    context_width: int
    features: int
    kernel_init: Initializer
    dtype: DTypeLike = jnp.float32

    def setup(self) -> None:
        shape = self.context_width + self.features, self.features
        self.kernel = self.param("kernel", self.kernel_init, shape)

    def project_values(self, values: Float[Array, "b s k"]) -> Float[Array, "b s f"]:
        """Multiply the values of attention by the rows of W_c for context vectors."""
        return values.astype(self.dtype) @ self.kernel[: self.context_width].astype(self.dtype)

    def __call__(
        self, c: Float[Array, "b #t *n f"], h: Float[Array, "b t f"]
    ) -> Float[Array, "b t *n f"]:
        """Return W_c [c; h] for a context vector c of values from `project_values`."""
        state = h.astype(self.dtype) @ self.kernel[self.context_width :].astype(self.dtype)
        return c + (state if c.ndim == 3 else state[:, :, None])


class LuongDecoder(PlainDecoder):
    """Decoder with attention after the recurrent step (Luong 2015 §3).

    The state h_t gives attention weights a_t, a context vector c_t and the attentional state
    h̃_t = tanh(W_c [c_t; h_t]) (eq. 5). With input feeding (§3.3), h̃_{t−1} is concatenated with
    the input of time step t, so attention is computed inside the loop over time steps. Without
    input feeding, attention is computed for all positions at once.
    """

    attention: Alignment
    input_feeding: bool
    combine_init: Initializer

    @classmethod
    def from_config(cls, model: Config, embed: Embed, stack: Stack) -> "PlainDecoder":
        attention = make_alignment(model, stack.initializers, stack.dtype)
        init = stack.initializers.kernel
        # Zero rows of W_c make the decoder ignore the first half of c_t, the keys, at first.
        if model.attention.key_value == "zero":
            init = with_zeros(init, rows=slice(memory_width(model) // 2))
        return cls(embed, stack, attention, model.attention.input_feeding, init)

    def setup(self) -> None:
        stack = self.stack
        width = self.attention.score.key_width  # values are as wide as the states for keys
        self.W_c = Combine(width, stack.features, self.combine_init, stack.dtype)

    def source(self, states: Float[Array, "b s k"], mask: Bool[Array, "b s"]) -> Source:
        source = self.attention.source(states, mask)
        return dataclasses.replace(source, values=self.W_c.project_values(source.values))

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        state = super().start(memory)
        if not self.input_feeding:
            return state
        shape = (memory.summary.shape[0], self.stack.features)
        return dataclasses.replace(state, feed=jnp.zeros(shape, self.stack.dtype))

    def attend(
        self,
        memory: RecurrentMemory,
        h: Float[Array, "b t h"],
        target_positions: Int[Array, "b t"],
        deterministic: bool,
    ) -> tuple[Features, Float[Array, "b t s"]]:
        """Return the attentional states h̃_t and the attention weights."""
        attended = self.attention(h, memory.source, target_positions, deterministic)
        states = jnp.tanh(self.W_c(attended.contexts, h))
        return Features(states, attended.mixture), attended.weights

    def step(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        tokens: Int[Array, " r"],
        deterministic: bool = True,
    ) -> tuple[Features, RecurrentState, Float[Array, "r s"]]:
        state, (features, weights) = self.advance(memory, state, self.embed(tokens), deterministic)
        return features, state, weights

    def advance(
        self,
        memory: RecurrentMemory,
        state: RecurrentState,
        x: Float[Array, "r e"],
        deterministic: bool,
    ) -> tuple[RecurrentState, tuple[Features, Float[Array, "r s"]]]:
        """Compute one time step from embedded tokens; return the new state and (h̃_t, a_t)."""
        h, carries = self.stack.step(state.carries, x, state.feed, deterministic)
        by_sentence = self.attend(
            memory, memory.by_sentence(h), memory.by_sentence(state.t), deterministic
        )
        features, weights = _by_row(by_sentence, h.shape[0])
        feed = features.vectors if features.vectors.ndim == 2 else features.vectors[:, 0]
        feed = feed if self.input_feeding else None
        return RecurrentState(carries, state.t + 1, feed), (features, weights)

    def decode(
        self, memory: RecurrentMemory, tokens: Int[Array, "b t"], deterministic: bool = True
    ) -> tuple[Features, Float[Array, "b t s"]]:
        if not self.input_feeding:
            positions = jnp.broadcast_to(jnp.arange(tokens.shape[1])[None], tokens.shape)
            h = self.run(memory, self.embed(tokens), deterministic)
            return self.attend(memory, h, positions, deterministic)

        def step(decoder: Any, state: RecurrentState, x: Array) -> tuple[RecurrentState, Any]:
            return decoder.advance(memory, state, x, deterministic)

        return scan_module(step, self, self.start(memory), self.embed(tokens))[1]


DECODERS: dict[str, type[PlainDecoder]] = {
    "plain": PlainDecoder,
    "cho": ChoDecoder,
    "luong": LuongDecoder,
    "bahdanau": BahdanauDecoder,
}
