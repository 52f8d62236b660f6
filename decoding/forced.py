"""Forced decoding: compute the probability of a given translation."""

from typing import Any

import flax.linen as nn
from jax import Array
from jaxtyping import Float, Int

from data.vocabulary import PAD
from tasks.losses import cross_entropy, mixture_cross_entropy
from tasks.task import Params
from tasks.translation import shift_right


def log_probability(
    model: nn.Module, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
) -> Float[Array, "b t"]:
    """Return log p of each target token, given the source and the preceding target tokens.

    It is 0 for padding.
    """

    def forward(model: Any) -> tuple[Array, Array | None, Array]:
        memory = model.encode(source, source != PAD)
        return *model.decode(memory, shift_right(target)), model.output_kernel()

    features, weights, kernel = nn.apply(forward, model)({"params": params})
    if features.ndim == 4:
        return -mixture_cross_entropy(features, weights, kernel, target, smoothing=0.0)[0]
    return -cross_entropy(features, kernel, target, smoothing=0.0)[0]
