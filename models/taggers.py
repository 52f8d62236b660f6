"""Taggers: models with an output at every time step (Schuster & Paliwal 1997)."""

from collections.abc import Callable, Mapping, Sequence

import flax.linen as nn
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from configs.base import Config
from models.dropout import Dropout
from models.embedding import Embed
from models.initializers import XAVIER, Initializers, make_initializers
from models.recurrent import Stack


class Characters(nn.Module):
    """Character-level word features: a convolution of width 3, max-pooled (Ma & Hovy 2016)."""

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
    """Concatenate all inputs of a time step.

    Symbols such as words and part-of-speech tags are embedded; numbers are used directly.
    """

    sizes: Mapping[str, int]  # vocabulary sizes of the symbol inputs, by name
    embedding: int  # embedding width of the input "word"
    small_embedding: int  # embedding width of other symbols, such as tags and characters
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, inputs: Mapping[str, Array], mask: Bool[Array, "b t"]
    ) -> Float[Array, "b t i"]:
        parts = []
        # Sort the names as jit does, so that parts have the same order with and without jit.
        for name in sorted(inputs):
            values = inputs[name]
            if name == "characters":
                make = Characters(self.sizes[name], self.small_embedding, self.dtype, name=name)
                parts.append(make(values))
            elif name in self.sizes:
                width = self.embedding if name == "word" else self.small_embedding
                parts.append(Embed(self.sizes[name], width, dtype=self.dtype, name=name)(values))
            else:
                parts.append(values.astype(self.dtype))
        return jnp.concatenate(parts, axis=-1) * mask[..., None]  # padding has zero features


class Windows(nn.Module):
    """Layers h_t = tanh(W [x_{t−w}; ...; x_{t+w}] + b), with zeros outside the sequence.

    The windowed MLP has a window in its first layer only. The time-delay network has a window in
    every layer.
    """

    features: int
    windows: Sequence[int]  # w of each layer; 0: the layer reads only x_t
    dropout: float = 0.0
    initializers: Initializers = XAVIER
    dtype: DTypeLike = jnp.float32

    @nn.compact
    def __call__(
        self, x: Float[Array, "b t i"], mask: Bool[Array, "b t"], deterministic: bool = True
    ) -> Float[Array, "b t h"]:
        drop = Dropout(self.dropout)
        for i, window in enumerate(self.windows):
            layer = nn.Conv(
                self.features, (2 * window + 1,), dtype=self.dtype, name=f"layer{i}",
                kernel_init=self.initializers.kernel,
            )  # fmt: skip
            x = jnp.tanh(layer(drop(x, deterministic=deterministic))) * mask[..., None]
        return x


class Delayed(nn.Module):
    """Unidirectional network that labels a time step after reading `delay` further time steps.

    Beyond the end of the sequence, the network reads zeros.
    """

    stack: Stack
    delay: int = 0

    def __call__(
        self, x: Float[Array, "b t i"], mask: Bool[Array, "b t"], deterministic: bool = True
    ) -> Float[Array, "b t h"]:
        time_steps, reverse = x.shape[1], self.stack.reverse
        x = jnp.pad(x, ((0, 0), (self.delay, 0) if reverse else (0, self.delay), (0, 0)))
        length = mask.sum(axis=1, keepdims=True)
        delayed_length = jnp.where(length, length + self.delay, 0)
        delayed_mask = jnp.arange(time_steps + self.delay)[None] < delayed_length
        states, _ = self.stack(x, delayed_mask, deterministic=deterministic)
        return states[:, :time_steps] if reverse else states[:, self.delay :]


class Bidirectional(nn.Module):
    """Bidirectional recurrent network (BRNN): the output layer reads the states of both directions.

    With one layer the directions do not interact, as in Schuster & Paliwal 1997; a second layer
    reads the outputs of both directions.
    """

    stack: Stack

    def __call__(
        self, x: Float[Array, "b t i"], mask: Bool[Array, "b t"], deterministic: bool = True
    ) -> Float[Array, "b t h"]:
        return self.stack(x, mask, deterministic=deterministic)[0]


class Tagger(nn.Module):
    """A network with a linear output layer. It returns [1, batch, time step, output].

    The first axis counts networks: `Merged` returns the outputs of two.
    """

    inputs: Inputs
    network: nn.Module
    outputs: int
    dropout: float = 0.0
    initializers: Initializers = XAVIER

    @nn.compact
    def __call__(
        self, inputs: Mapping[str, Array], mask: Bool[Array, "b t"], deterministic: bool = True
    ) -> Float[Array, "1 b t o"]:
        features = self.network(self.inputs(inputs, mask), mask, deterministic)
        features = Dropout(self.dropout)(features.astype(jnp.float32), deterministic=deterministic)
        init = self.initializers.kernel
        return nn.Dense(self.outputs, kernel_init=init, name="output")(features)[None]


class Merged(nn.Module):
    """Two taggers without shared parameters; outputs have shape [2, batch, time step, output].

    The prediction is the mean of both outputs, as in Schuster & Paliwal 1997. The mean of logits is
    the (normalized) geometric mean of the two distributions.
    """

    forward: Tagger
    backward: Tagger

    def __call__(
        self, inputs: Mapping[str, Array], mask: Bool[Array, "b t"], deterministic: bool = True
    ) -> Float[Array, "2 b t o"]:
        outputs = [tagger(inputs, mask, deterministic) for tagger in (self.forward, self.backward)]
        return jnp.concatenate(outputs)


def _stack(model: Config, bidirectional: bool = False, reverse: bool = False) -> Stack:
    return Stack(
        model.cell, model.features, model.layers, bidirectional, reverse, dropout=model.dropout,
        initializers=make_initializers(model.init, model.init_scale),
        dtype=jnp.dtype(model.dtype),
    )  # fmt: skip


def _windows(model: Config, later: int) -> Windows:
    """Build a `Windows` network whose layers after the first have the window size `later`."""
    init = make_initializers(model.init, model.init_scale)
    windows = (model.window, *[later] * (model.layers - 1))
    return Windows(model.features, windows, model.dropout, init, jnp.dtype(model.dtype))


def _forward(model: Config) -> Delayed:
    return Delayed(_stack(model), model.forward_delay)


def _backward(model: Config) -> Delayed:
    return Delayed(_stack(model, reverse=True), model.backward_delay)


# Maps the network names of configs to functions that build one network each. The outputs of two
# networks are merged.
NETWORKS: dict[str, tuple[Callable[[Config], nn.Module], ...]] = {
    "mlp": (lambda model: _windows(model, later=0),),
    "tdnn": (lambda model: _windows(model, later=model.window),),
    "forward": (_forward,),
    "backward": (_backward,),
    "merged": (_forward, _backward),
    "brnn": (lambda model: Bidirectional(_stack(model, bidirectional=True)),),
}


def make_tagger(model: Config, sizes: Mapping[str, int], outputs: int) -> Tagger | Merged:
    """Build a tagger from `config.model`.

    `sizes` maps the names of symbolic inputs to vocabulary sizes, and `outputs` is the number of
    outputs per time step.
    """
    init, dtype = make_initializers(model.init, model.init_scale), jnp.dtype(model.dtype)
    taggers = [
        Tagger(
            Inputs(dict(sizes), model.embedding, model.small_embedding, dtype),
            build(model), outputs, model.dropout, init,
        )
        for build in NETWORKS[model.network]
    ]  # fmt: skip
    return taggers[0] if len(taggers) == 1 else Merged(*taggers)
