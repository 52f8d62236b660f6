"""Forced decoding: probabilities of a given translation, and search after a given prefix."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Int

from data.vocabulary import PAD
from decoding.greedy import Step
from models.output import output_scores
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
    return target_log_p(features, weights, kernel, target)[0]


def target_log_p(
    features: Float[Array, "b t *n d"],
    weights: Float[Array, "b t s"] | None,
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> tuple[Float[Array, "b t"], Float[Array, ""]]:
    """Return log p of each target token, and their sum. Only the sum is differentiable.

    log p is 0 for padding. A mixture of distributions needs its weights.
    """
    if features.ndim == 4:
        assert weights is not None
        nll, sums = mixture_cross_entropy(features, weights, kernel, target, smoothing=0.0)
    else:
        nll, sums = cross_entropy(features, kernel, target, smoothing=0.0)
    return -nll, -sums["loss"]


def next_log_p(
    model: nn.Module,
    params: Params,
    source: Int[Array, "b s"],
    prefix: Int[Array, "b t"],
    position: Int[Array, ""],
) -> Float[Array, "b v"]:
    """Return log p of every token at a target position, given the tokens of `prefix` before it."""

    def forward(model: Any) -> Float[Array, "b v"]:
        memory = model.encode(source, source != PAD)
        features, weights = model.decode(memory, shift_right(prefix), attention=True)
        features = jnp.take(features, position, axis=1)
        weights = None if weights is None else jnp.take(weights, position, axis=1)
        return output_scores(features, weights, model.output_kernel())

    return jax.nn.log_softmax(nn.apply(forward, model)({"params": params}).astype(jnp.float32))


def force_prefix(step: Step, state: Any, prefix: Int[Array, "r p"]) -> tuple[Step, Any]:
    """Return a step function that generates the tokens of `prefix` first, and its state.

    There is one prefix per hypothesis, and <pad> follows its last token. A token of the prefix has
    the probability 1, so the scores of hypotheses are those of their other tokens.
    """

    def forced(state: Any, tokens: Int[Array, " r"]) -> tuple[Array, Any, Array | None]:
        state, t = state
        logits, state, weights = step(state, tokens)
        wanted = jnp.take_along_axis(prefix, t[:, None], axis=1, mode="fill", fill_value=PAD)
        other = jnp.arange(logits.shape[-1])[None] != wanted
        return jnp.where((wanted != PAD) & other, -jnp.inf, logits), (state, t + 1), weights

    return forced, (state, jnp.zeros(len(prefix), int))
