"""Losses: sums over the words or texts of a batch, divided where they are reported."""

import functools
from typing import Any

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
    """The (smoothed) loss, −log p of the target, and whether no class is likelier."""
    total = jax.nn.logsumexp(logits, axis=-1)
    rating = jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    nll = loss = total - rating
    if smoothing:
        loss = (1 - smoothing) * nll + smoothing * (total - logits.mean(axis=-1))
    return {"loss": loss, "nll": nll, "accuracy": rating >= logits.max(axis=-1)}


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
    hits, and their count. Only the sum of the loss has a gradient.

    Label smoothing mixes the reference with the uniform distribution over the vocabulary. Logits
    are many, so at most `held` (HELD on each device) are there at a time, those of a few target
    positions; the gradient is formed while they are, and they are not computed again. (Several
    devices add up the kernel's gradient once a part.)
    """
    batch, length = target.shape
    width = max(1, (held or HELD * jax.device_count()) // (batch * kernel.shape[-1]))
    found: Any = _by_parts(-(-length // width), smoothing, features, kernel, target)
    (values, loss), real = found, target != PAD
    sums = summed(values, real) | {"loss": loss}
    sums["examples"] = jnp.sum(real.any(axis=1), dtype=jnp.float32)
    return jnp.where(real, values["nll"], 0), sums


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _by_parts(
    parts: int, smoothing: float, features: Array, kernel: Array, target: Array
) -> tuple[dict[str, Array], Array]:
    """The values [b, t] of every target position, and the sum of the loss over the real ones."""

    def part(own: tuple[Array, Array]) -> dict[str, Array]:
        return class_values(logits(own[0], kernel), own[1], smoothing)

    values = jax.lax.map(part, (_cut(features, parts), _cut(target, parts)))
    return _total(values, target)


def _by_parts_forward(
    parts: int, smoothing: float, features: Array, kernel: Array, target: Array
) -> tuple[Any, tuple[Array, Array]]:
    """The same, and the gradients of the loss by features and kernel."""

    def part(of_kernel: Array, own: tuple[Array, Array]) -> tuple[Array, Any]:
        features, target = own
        ratings = logits(features, kernel)
        slope = _slope(ratings, target, smoothing).astype(features.dtype)
        of_features = jnp.einsum("btv,dv->btd", slope, kernel.astype(features.dtype))
        of_kernel += jnp.einsum("btd,btv->dv", features, slope, preferred_element_type=jnp.float32)
        return of_kernel, (class_values(ratings, target, smoothing), of_features)

    nothing = jnp.zeros(kernel.shape, jnp.float32)
    own = _cut(features, parts), _cut(target, parts)
    of_kernel, (values, of_features) = jax.lax.scan(part, nothing, own)
    of_features = _join(of_features, target.shape[1])
    return _total(values, target), (of_features, of_kernel.astype(kernel.dtype))


def _by_parts_backward(
    parts: int, smoothing: float, gradients: tuple[Array, Array], of_outputs: Any
) -> tuple[Array, Array, None]:
    of_features, of_kernel = ((of_outputs[1] * x).astype(x.dtype) for x in gradients)
    return of_features, of_kernel, None


_by_parts.defvjp(_by_parts_forward, _by_parts_backward)


def _cut(x: Array, parts: int) -> Array:
    """[b, t, ...] as [parts, b, t / parts, ...], with padding at the end."""
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % parts), *[(0, 0)] * (x.ndim - 2)))
    return jnp.moveaxis(x.reshape(len(x), parts, -1, *x.shape[2:]), 1, 0)


def _join(x: Array, length: int) -> Array:
    x = jnp.moveaxis(x, 0, 1)
    return x.reshape(len(x), -1, *x.shape[3:])[:, :length]


def _total(values: dict[str, Array], target: Array) -> tuple[dict[str, Array], Array]:
    joined = {name: _join(x, target.shape[1]) for name, x in values.items()}
    return joined, jnp.sum(joined["loss"], where=target != PAD, dtype=jnp.float32)


def _slope(ratings: Float[Array, "b t v"], target: Array, smoothing: float) -> Array:
    """The gradient of the summed loss by logits: p minus the smoothed reference."""
    size = ratings.shape[-1]
    reference = (1 - smoothing) * jax.nn.one_hot(target, size) + smoothing / size
    return jnp.where((target != PAD)[..., None], jax.nn.softmax(ratings) - reference, 0)


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
