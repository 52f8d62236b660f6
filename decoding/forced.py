"""Forced decoding: compute the probability of a given translation."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from data.vocabulary import PAD
from models.output import output_scores
from tasks.task import Params
from tasks.translation import shift_right


def log_probability(
    model: nn.Module, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
) -> Float[Array, "b t"]:
    """Return log p of each target token, given the source and the preceding target tokens."""

    def forward(model: Any) -> Float[Array, "b t v"]:
        memory = model.encode(source, source != PAD)
        features, weights = model.decode(memory, shift_right(target), attention=True)
        return output_scores(features, weights, model.output_kernel())

    log_p = jax.nn.log_softmax(nn.apply(forward, model)({"params": params}).astype(jnp.float32))
    return jnp.take_along_axis(log_p, target[..., None], axis=-1)[..., 0]
