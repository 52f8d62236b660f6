"""Ensemble decoding: average the probabilities of several models at every time step."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from decoding.greedy import Step


def ensemble(steps: Sequence[Step]) -> Step:
    """Combine the step functions of several models; the combined state is a tuple of their states.

    The combined step returns the log of the mean probability of each token, and the mean
    attention weights of the models that have attention.
    """

    def step(
        states: tuple[Any, ...], tokens: Int[Array, " b"]
    ) -> tuple[Float[Array, "b v"], tuple[Any, ...], Float[Array, "b s"] | None]:
        outputs = [model(state, tokens) for model, state in zip(steps, states, strict=True)]
        log_p = jnp.stack([jax.nn.log_softmax(logits) for logits, *_ in outputs])
        mean = jax.nn.logsumexp(log_p, axis=0) - jnp.log(len(steps))
        weights = [weights for *_, weights in outputs if weights is not None]
        attention = jnp.mean(jnp.stack(weights), axis=0) if weights else None
        return mean, tuple(state for _, state, _ in outputs), attention

    return step
