"""How likely a model finds a given translation."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from data.vocabulary import PAD
from tasks.translation import Params, Translation


def log_probability(
    task: Translation, params: Params, source: Int[Array, "b s"], target: Int[Array, "b t"]
) -> Float[Array, " b"]:
    """log p(target | source), </s> included where the target has it."""
    logits, _ = task.decode(params, task.encode(params, source), target)
    log_p = jax.nn.log_softmax(logits.astype(jnp.float32))
    own = jnp.take_along_axis(log_p, target[..., None], axis=-1)[..., 0]
    return jnp.sum(own, axis=1, where=target != PAD)
