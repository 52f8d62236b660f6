"""How likely a model finds a given translation."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from tasks.task import Params
from tasks.translation import Translation


def log_probability(
    task: Translation, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
) -> Float[Array, "b t"]:
    """log p of each target word, given the source and those before it."""
    logits, _ = task.decode(params, task.encode(params, source), target)
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    return jnp.take_along_axis(log_p, target[..., None], axis=-1)[..., 0]
