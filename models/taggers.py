"""An output at every step of a sequence: the networks that Schuster & Paliwal 1997 compare."""

from collections.abc import Mapping, Sequence

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.embedding import Embed
from models.initializers import XAVIER, Initializers, make_initializers
from models.recurrent import Stack


class Characters(nn.Module):
    """A word by its letters: windows of three, the largest of each feature (Ma & Hovy 2016)."""

    size: int
    features: int
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, letters: Int[Array, "b t c"]) -> Float[Array, "b t e"]:
        real = (letters > 0)[..., None]
        embedded = Embed(self.size, self.features, dtype=self.dtype)(letters) * real
        windows = nn.Conv(self.features, (3,), dtype=self.dtype)(embedded)
        largest = jnp.max(windows, axis=-2, where=real, initial=-jnp.inf)
        return jnp.where(real.any(axis=-2), largest, 0)


class Inputs(nn.Module):
    """What is read at a step: numbers as they are, symbols by their embeddings, side by side."""

    sizes: Mapping[str, int]  # vocabularies of the symbols
    embedding: int
    small_embedding: int
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, inputs: Mapping[str, Array], mask: Bool[Array, "b t"]
    ) -> Float[Array, "b t i"]:
        parts = []
        for name in sorted(inputs):  # as jit sorts them: no other order is safe
            values = inputs[name]
            if name == "characters":
                make = Characters(self.sizes[name], self.small_embedding, self.dtype, name=name)
                parts.append(make(values))
            elif name in self.sizes:
                width = self.embedding if name == "word" else self.small_embedding
                parts.append(Embed(self.sizes[name], width, dtype=self.dtype, name=name)(values))
            else:
                parts.append(values.astype(self.dtype))
        return jnp.concatenate(parts, axis=-1) * mask[..., None]  # nothing stands behind the end


class Windows(nn.Module):
    """Layers h_t = tanh(W [x_{t−w}; ...; x_{t+w}] + b), a window for each; zeros stand outside.

    A first window alone is the windowed MLP; one at every layer is the time-delay network.
    """

    features: int
    windows: Sequence[int]
    dropout: float = 0.0
    start_weights: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(self, x: Array, mask: Array, deterministic: bool = True) -> Array:
        drop = nn.Dropout(self.dropout)
        for i, window in enumerate(self.windows):
            layer = nn.Conv(
                self.features, (2 * window + 1,), dtype=self.dtype, name=f"layer{i}",
                kernel_init=self.start_weights.kernel,
            )  # fmt: skip
            x = jnp.tanh(layer(drop(x, deterministic=deterministic))) * mask[..., None]
        return x


class Delayed(nn.Module):
    """A network of one direction that labels step t when it has read `delay` steps more.

    Where the sequence ends before that, it reads zeros.
    """

    stack: Stack
    delay: int = 0

    def __call__(self, x: Array, mask: Array, deterministic: bool = True) -> Array:
        steps, reverse = x.shape[1], self.stack.reverse
        x = jnp.pad(x, ((0, 0), (self.delay, 0) if reverse else (0, self.delay), (0, 0)))
        length = mask.sum(axis=1, keepdims=True)
        read = jnp.arange(steps + self.delay)[None] < jnp.where(length, length + self.delay, 0)
        states, _ = self.stack(x, read, deterministic=deterministic)
        return states[:, :steps] if reverse else states[:, self.delay :]


class Bidirectional(nn.Module):
    """The BRNN: forward and backward states side by side, read by one output layer.

    In one layer the two never touch, as in the paper; a second layer reads both.
    """

    stack: Stack

    def __call__(self, x: Array, mask: Array, deterministic: bool = True) -> Array:
        return self.stack(x, mask, deterministic=deterministic)[0]


class Tagger(nn.Module):
    """A network over its inputs, and one output layer; outputs are [1, batch, step, output]."""

    inputs: Inputs
    network: nn.Module
    outputs: int
    dropout: float = 0.0
    start_weights: Initializers = XAVIER

    @nn.compact
    def __call__(
        self, inputs: Mapping[str, Array], mask: Bool[Array, "b t"], deterministic: bool = True
    ) -> Float[Array, "1 b t o"]:
        features = self.network(self.inputs(inputs, mask), mask, deterministic)
        features = nn.Dropout(self.dropout)(
            features.astype(jnp.float32), deterministic=deterministic
        )
        init = self.start_weights.kernel
        return nn.Dense(self.outputs, kernel_init=init, name="output")(features)[None]


class Merged(nn.Module):
    """Two taggers that share no weight; outputs are [2, batch, step, output].

    The mean over them is the prediction. Of values it is the arithmetic mean that the paper merges
    regressions by; of logits it is the geometric mean of the distributions.
    """

    forward: Tagger
    backward: Tagger

    def __call__(
        self, inputs: Mapping[str, Array], mask: Bool[Array, "b t"], deterministic: bool = True
    ) -> Float[Array, "2 b t o"]:
        both = [tagger(inputs, mask, deterministic) for tagger in (self.forward, self.backward)]
        return jnp.concatenate(both)


def make_tagger(model: Config, sizes: Mapping[str, int], outputs: int) -> Tagger | Merged:
    """The tagger a config describes, for symbols of so many kinds and so many outputs a step."""
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)

    def stack(bidirectional: bool = False, reverse: bool = False) -> Stack:
        return Stack(
            model.cell, model.features, model.layers, bidirectional, reverse,
            dropout=model.dropout, start_weights=init, dtype=dtype,
        )  # fmt: skip

    def delayed(reverse: bool) -> Delayed:
        delay = model.backward_delay if reverse else model.forward_delay
        return Delayed(stack(reverse=reverse), delay)

    def windows(later: int) -> Windows:
        own = (model.window, *[later] * (model.layers - 1))
        return Windows(model.features, own, model.dropout, init, dtype)

    networks = {
        "mlp": lambda: windows(later=0),
        "tdnn": lambda: windows(later=model.window),
        "forward": lambda: delayed(reverse=False),
        "backward": lambda: delayed(reverse=True),
        "brnn": lambda: Bidirectional(stack(bidirectional=True)),
    }

    def tagger(network: str) -> Tagger:
        inputs = Inputs(dict(sizes), model.embedding, model.small_embedding, dtype)
        return Tagger(inputs, networks[network](), outputs, model.dropout, init)

    if model.network == "merged":
        return Merged(tagger("forward"), tagger("backward"))
    return tagger(model.network)
