"""Losses, as sums over the tokens or texts of a batch; they are divided where they are reported."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Shaped

from configs.base import Config
from data.vocabulary import PAD
from models.output import logits

HELD = 2**27  # largest number of logits per device at a time: half a GiB in float32


def class_values(
    logits: Float[Array, "*b v"], target: Int[Array, "*b"], smoothing: float = 0.0
) -> dict[str, Float[Array, "*b"] | Bool[Array, "*b"]]:
    """Return the (smoothed) loss, −log p of the target, and whether no class is more probable."""
    total = jax.nn.logsumexp(logits, axis=-1)
    chosen = jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    nll = loss = total - chosen
    if smoothing:
        loss = (1 - smoothing) * nll + smoothing * (total - logits.mean(axis=-1))
    return {"loss": loss, "nll": nll, "accuracy": chosen >= logits.max(axis=-1)}


def summed(
    values: dict[str, Shaped[Array, "*b"]], real: Bool[Array, "*b"]
) -> dict[str, Float[Array, ""]]:
    """Sum the values where `real`, and count the terms."""
    values = values | {"count": jnp.ones(real.shape)}
    return {name: jnp.sum(x, where=real, dtype=jnp.float32) for name, x in values.items()}


def cross_entropy(
    features: Float[Array, "b t d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
    smoothing: float,
    held: int | None = None,
) -> tuple[Float[Array, "b t"], dict[str, Float[Array, ""]]]:
    """Return −log p of each target token, and sums over tokens that are not padding: the (smoothed)
    loss, −log p, correct predictions and the count. Only the summed loss has a gradient.

    Label smoothing mixes the reference with the uniform distribution over the vocabulary. Logits
    are computed for a few target positions at a time, at most `held` of them (default: HELD per
    device). Their gradient is computed in the same pass, so they are never recomputed. With several
    devices, the kernel's gradient is summed over devices once per part.
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
    parts: int,
    smoothing: float,
    features: Float[Array, "b t d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> tuple[dict[str, Shaped[Array, "b t"]], Float[Array, ""]]:
    """Return the values of all target positions, and the loss summed without padding."""

    def part(slices: tuple[Array, Array]) -> dict[str, Array]:
        return class_values(logits(slices[0], kernel), slices[1], smoothing)

    values = jax.lax.map(part, (_cut(features, parts), _cut(target, parts)))
    return _total(values, target)


def _by_parts_forward(
    parts: int,
    smoothing: float,
    features: Float[Array, "b t d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> tuple[Any, tuple[Float[Array, "b t d"], Float[Array, "d v"]]]:
    """Also return the gradients of the summed loss with respect to features and kernel."""

    def part(of_kernel: Array, slices: tuple[Array, Array]) -> tuple[Array, Any]:
        features, target = slices
        scores = logits(features, kernel)
        slope = _slope(scores, target, smoothing).astype(features.dtype)
        of_features = jnp.einsum("btv,dv->btd", slope, kernel.astype(features.dtype))
        of_kernel += jnp.einsum("btd,btv->dv", features, slope, preferred_element_type=jnp.float32)
        return of_kernel, (class_values(scores, target, smoothing), of_features)

    nothing = jnp.zeros(kernel.shape, jnp.float32)
    slices = _cut(features, parts), _cut(target, parts)
    of_kernel, (values, of_features) = jax.lax.scan(part, nothing, slices)
    of_features = _join(of_features, target.shape[1])
    return _total(values, target), (of_features, of_kernel.astype(kernel.dtype))


def _by_parts_backward(
    parts: int, smoothing: float, gradients: tuple[Array, Array], of_outputs: Any
) -> tuple[Array, Array, None]:
    of_features, of_kernel = ((of_outputs[1] * x).astype(x.dtype) for x in gradients)
    return of_features, of_kernel, None


_by_parts.defvjp(_by_parts_forward, _by_parts_backward)


def _cut(x: Shaped[Array, "b t *f"], parts: int) -> Shaped[Array, "p b w *f"]:
    """Cut the target positions into p parts of w positions each, padded at the end."""
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % parts), *[(0, 0)] * (x.ndim - 2)))
    return jnp.moveaxis(x.reshape(len(x), parts, -1, *x.shape[2:]), 1, 0)


def _join(x: Shaped[Array, "p b w *f"], length: int) -> Shaped[Array, "b t *f"]:
    x = jnp.moveaxis(x, 0, 1)
    return x.reshape(len(x), -1, *x.shape[3:])[:, :length]


def _total(
    values: dict[str, Shaped[Array, "p b w"]], target: Int[Array, "b t"]
) -> tuple[dict[str, Shaped[Array, "b t"]], Float[Array, ""]]:
    joined = {name: _join(x, target.shape[1]) for name, x in values.items()}
    return joined, jnp.sum(joined["loss"], where=target != PAD, dtype=jnp.float32)


def _slope(
    scores: Float[Array, "b t v"], target: Int[Array, "b t"], smoothing: float
) -> Float[Array, "b t v"]:
    """Return the gradient of the summed loss by logits: p minus the smoothed reference."""
    size = scores.shape[-1]
    reference = (1 - smoothing) * jax.nn.one_hot(target, size) + smoothing / size
    return jnp.where((target != PAD)[..., None], jax.nn.softmax(scores) - reference, 0)


def doubly_stochastic(
    attention: Float[Array, "b t s"], target: Int[Array, "b t"], source_mask: Bool[Array, "b s"]
) -> Float[Array, ""]:
    """Σ_i (1 − Σ_t α_ti)²: every source token should be attended once (Xu 2015 §4.2.1)."""
    read = jnp.sum(attention, axis=1, where=(target != PAD)[..., None])
    present = source_mask & (target != PAD).any(axis=1, keepdims=True)
    return jnp.sum((1 - read) ** 2, where=present)


def penalty(hops: Float[Array, "b r t"]) -> Float[Array, " b"]:
    """‖AAᵀ − I‖²_F: hops should attend to different words, each to few (Lin 2017 eq. 8)."""
    products = jnp.einsum("brt,bqt->brq", hops, hops)
    return jnp.sum((products - jnp.eye(hops.shape[1])[None]) ** 2, axis=(1, 2))


def reinforce(
    nll: Float[Array, "b t"],
    baseline: Float[Array, ""],
    target: Int[Array, "b t"],
    settings: Config,
    log_p: Float[Array, "b t"],
    entropy: Float[Array, "b t"],
) -> Float[Array, ""]:
    """Return the loss whose gradient is REINFORCE's with an entropy bonus (Xu 2015 eq. 11).

    The reward of a sample is the log-probability of all tokens from its time step on, minus a
    baseline per token: the moving average of log p.
    """
    real = target != PAD
    gain = jnp.where(real, baseline - nll, 0)
    to_come = jnp.cumsum(gain[:, ::-1], axis=1)[:, ::-1]
    choices = jax.lax.stop_gradient(to_come) * log_p
    return -jnp.sum(settings.weight * choices + settings.entropy * entropy, where=real)
