"""Losses: sums over the words or texts of a batch, divided where they are reported."""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from configs.base import Config
from data.vocabulary import PAD
from models.output import logits

HELD = 2**27  # logits that a device may hold at a time: half a GiB in float32


def class_values(
    logits: Float[Array, "*b v"], target: Int[Array, "*b"], smoothing: float = 0.0
) -> dict[str, Array]:
    """The (smoothed) loss, −log p of the target, and whether it is the likeliest class."""
    total = jax.nn.logsumexp(logits, axis=-1)
    nll = total - jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    loss = nll
    if smoothing:
        loss = (1 - smoothing) * nll + smoothing * (total - logits.mean(axis=-1))
    return {"loss": loss, "nll": nll, "accuracy": logits.argmax(axis=-1) == target}


def summed(values: dict[str, Array], real: Bool[Array, "*b"]) -> dict[str, Array]:
    """Sums over what is real, and how much that is."""
    values = values | {"count": jnp.ones(real.shape)}
    return {name: jnp.sum(x, where=real, dtype=jnp.float32) for name, x in values.items()}


def cross_entropy(
    features: Float[Array, "b t d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
    smoothing: float,
    held: int | None = None,
) -> tuple[Float[Array, "b t"], dict[str, Array]]:
    """−log p of each target token, and sums over the real ones of the (smoothed) loss, −log p,
    hits, and their count.

    Label smoothing mixes the reference with the uniform distribution over the vocabulary. Where
    the logits would be more than `held` (HELD on each device), they are computed a few target
    positions at a time, and again in the backward pass.
    """

    def of(features: Array, target: Array) -> dict[str, Array]:
        return class_values(logits(features, kernel), target, smoothing)

    batch, length = target.shape
    width = max(1, (held or HELD * jax.device_count()) // (batch * kernel.shape[-1]))
    values = of(features, target) if width >= length else _by_parts(of, width, features, target)
    real = target != PAD
    sums = summed(values, real) | {"examples": jnp.sum(real.any(axis=1), dtype=jnp.float32)}
    return jnp.where(real, values["nll"], 0), sums


def _by_parts(of, width: int, features: Array, target: Array) -> dict[str, Array]:
    """`of` over parts of `width` target positions, one after the other, keeping nothing."""
    length = target.shape[1]
    parts = -(-length // width)

    def cut(x: Array) -> Array:
        x = jnp.pad(x, ((0, 0), (0, parts * width - length), *[(0, 0)] * (x.ndim - 2)))
        return jnp.moveaxis(x.reshape(len(x), parts, width, *x.shape[2:]), 1, 0)

    values = jax.lax.map(jax.checkpoint(lambda xs: of(*xs)), (cut(features), cut(target)))
    joined = {name: jnp.moveaxis(x, 0, 1) for name, x in values.items()}
    return {name: x.reshape(len(x), -1)[:, :length] for name, x in joined.items()}


def doubly_stochastic(attention: Array, target: Array, source_mask: Array) -> Array:
    """Σ_i (1 − Σ_t α_ti)²: each source word should be read once in all (Xu 2015 §4.2.1)."""
    read = jnp.sum(attention, axis=1, where=(target != PAD)[..., None])
    present = source_mask & (target != PAD).any(axis=1, keepdims=True)
    return jnp.sum((1 - read) ** 2, where=present)


def penalty(hops: Float[Array, "b r t"]) -> Float[Array, " b"]:
    """‖AAᵀ − I‖²_F: hops should look at different words, and each at few (Lin 2017 eq. 8)."""
    products = jnp.einsum("brt,bqt->brq", hops, hops)
    return jnp.sum((products - jnp.eye(hops.shape[1])[None]) ** 2, axis=(1, 2))


def reinforce(
    nll: Array, average: Array, target: Array, settings: Config, log_p: Array, entropy: Array
) -> Array:
    """The loss whose gradient is REINFORCE's with an entropy bonus (Xu 2015 eq. 11).

    A sample is rewarded with the log-probability of the words from its step on, which it can
    still change, against the moving average a word.
    """
    real = target != PAD
    gain = jnp.where(real, average - nll, 0)
    to_come = jnp.cumsum(gain[:, ::-1], axis=1)[:, ::-1]
    choices = jax.lax.stop_gradient(to_come) * log_p
    return -jnp.sum(settings.weight * choices + settings.entropy * entropy, where=real)
