"""Losses, summed over the tokens or texts of a batch.

The sums are divided by the number of tokens or texts only where they are reported.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Shaped

from configs.base import Config
from data.vocabulary import PAD
from models.output import Features, log_weights, logits, mixture_scores

# Largest number of logits that a device keeps in memory at a time: 2 GiB in float32. Fewer chunks
# add to the gradient of the output matrix less often (docs/performance_decisions.md).
MAX_LOGITS = 2**29


def class_values(
    logits: Float[Array, "*b v"], target: Int[Array, "*b"], smoothing: float = 0.0
) -> dict[str, Float[Array, "*b"] | Bool[Array, "*b"]]:
    """Return for each target the (smoothed) loss, −log p, and "accuracy".

    The prediction is accurate if no other class is more probable than the target.
    """
    total = jax.nn.logsumexp(logits, axis=-1)
    chosen = jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    nll = loss = total - chosen
    if smoothing:
        loss = (1 - smoothing) * nll + smoothing * (total - logits.mean(axis=-1))
    return {"loss": loss, "nll": nll, "accuracy": chosen >= logits.max(axis=-1)}


def summed(
    values: dict[str, Shaped[Array, "*b"]], real: Bool[Array, "*b"]
) -> dict[str, Float[Array, ""]]:
    """Sum each value over the entries where `real` is true, and count these entries."""
    values = values | {"count": jnp.ones(real.shape)}
    return {name: jnp.sum(x, where=real, dtype=jnp.float32) for name, x in values.items()}


def cross_entropy(
    features: Float[Array, "b t d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
    smoothing: float,
    max_logits: int | None = None,
) -> tuple[Float[Array, "b t"], dict[str, Float[Array, ""]]]:
    """Return −log p of each target token, and sums over the tokens that are not padding.

    `kernel` is the matrix of the output projection: logits = features · kernel. The sums are "loss"
    (with label smoothing), "nll" (−log p), "accuracy" (number of correct predictions), "count"
    (number of tokens) and "examples" (number of sentences). Only "loss" has a gradient. Label
    smoothing mixes the reference with the uniform distribution over the vocabulary.

    To save memory, logits are computed for a chunk of target positions at a time, with at most
    `max_logits` logits per chunk (default: MAX_LOGITS per device). The forward pass also computes
    the gradients, so logits are never recomputed. With several devices, the gradient of the kernel
    is summed over devices once per chunk.
    """
    batch, length = target.shape
    width = max(1, (max_logits or MAX_LOGITS * jax.device_count()) // (batch * kernel.shape[-1]))
    chunks = chunk_count(length, -(-length // width))
    results: Any = _in_chunks(chunks, smoothing, features, kernel, target)
    (values, loss), real = results, target != PAD
    sums = summed(values, real) | {"loss": loss}
    sums["examples"] = jnp.sum(real.any(axis=1), dtype=jnp.float32)
    return jnp.where(real, values["nll"], 0), sums


def chunk_count(length: int, least: int) -> int:
    """Return a number of chunks, at least `least`, that divides the length, so none is padded.

    If such a number exceeds 2 × `least`, return `least`, because many small chunks would be slower.
    """
    candidates = range(least, 2 * least + 1)
    return next((count for count in candidates if length % count == 0), least)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _in_chunks(
    chunks: int,
    smoothing: float,
    features: Float[Array, "b t d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> tuple[dict[str, Shaped[Array, "b t"]], Float[Array, ""]]:
    """Return the `class_values` of all target positions, and the loss summed without padding."""
    cast = kernel.astype(features.dtype)

    def one_chunk(slices: tuple[Array, Array]) -> dict[str, Array]:
        return class_values(logits(slices[0], cast), slices[1], smoothing)

    values = jax.lax.map(one_chunk, (_split(features, chunks), _split(target, chunks)))
    return _total(values, target)


def _in_chunks_forward(
    chunks: int,
    smoothing: float,
    features: Float[Array, "b t d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> tuple[Any, tuple[Float[Array, "b t d"], Float[Array, "d v"]]]:
    """Forward rule of the custom gradient of `_in_chunks`.

    Return the results of `_in_chunks`, and the gradients of its loss with respect to features and
    kernel, which the backward rule only scales.
    """
    cast = kernel.astype(features.dtype)  # once, before the loop over chunks

    def one_chunk(d_kernel: Array, slices: tuple[Array, Array]) -> tuple[Array, Any]:
        features, target = slices
        scores = logits(features, cast)
        d_scores = _logits_gradient(scores, target, smoothing).astype(features.dtype)
        d_features = jnp.einsum("btv,dv->btd", d_scores, cast)
        d_kernel += jnp.einsum(
            "btd,btv->dv", features, d_scores, preferred_element_type=jnp.float32
        )
        return d_kernel, (class_values(scores, target, smoothing), d_features)

    zeros = jnp.zeros(kernel.shape, jnp.float32)
    slices = _split(features, chunks), _split(target, chunks)
    d_kernel, (values, d_features) = jax.lax.scan(one_chunk, zeros, slices)
    d_features = _join(d_features, target.shape[1])
    return _total(values, target), (d_features, d_kernel.astype(kernel.dtype))


def _in_chunks_backward(
    chunks: int, smoothing: float, gradients: tuple[Array, Array], d_outputs: Any
) -> tuple[Array, Array, None]:
    d_features, d_kernel = ((d_outputs[1] * x).astype(x.dtype) for x in gradients)
    return d_features, d_kernel, None


_in_chunks.defvjp(_in_chunks_forward, _in_chunks_backward)


def _split(x: Shaped[Array, "b t *f"], chunks: int) -> Shaped[Array, "c b w *f"]:
    """Split the target positions into c chunks of w positions each, padded at the end."""
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % chunks), *[(0, 0)] * (x.ndim - 2)))
    return jnp.moveaxis(x.reshape(len(x), chunks, -1, *x.shape[2:]), 1, 0)


def _join(x: Shaped[Array, "c b w *f"], length: int) -> Shaped[Array, "b t *f"]:
    """Concatenate the chunks along the target positions and remove the padding."""
    x = jnp.moveaxis(x, 0, 1)
    return x.reshape(len(x), -1, *x.shape[3:])[:, :length]


def _total(
    values: dict[str, Shaped[Array, "c b w"]], target: Int[Array, "b t"]
) -> tuple[dict[str, Shaped[Array, "b t"]], Float[Array, ""]]:
    joined = {name: _join(x, target.shape[1]) for name, x in values.items()}
    return joined, jnp.sum(joined["loss"], where=target != PAD, dtype=jnp.float32)


def _logits_gradient(
    scores: Float[Array, "b t v"], target: Int[Array, "b t"], smoothing: float
) -> Float[Array, "b t v"]:
    """Return the gradient of the summed loss with respect to the logits: p − smoothed reference."""
    size = scores.shape[-1]
    reference = (1 - smoothing) * jax.nn.one_hot(target, size) + smoothing / size
    # The same normalizer as in `class_values`, so that XLA computes it only once.
    p = jnp.exp(scores - jax.nn.logsumexp(scores, axis=-1)[..., None])
    return jnp.where((target != PAD)[..., None], p - reference, 0)


def mixture_cross_entropy(
    features: Float[Array, "b t n d"],
    weights: Float[Array, "b t n"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
    smoothing: float,
) -> tuple[Float[Array, "b t"], dict[str, Float[Array, ""]]]:
    """Return the results of `cross_entropy` for the mixture p(y) = Σ_n weights_n p(y | features_n).

    To save memory, logits are computed for one target position at a time. As in `cross_entropy`,
    the forward pass also computes the gradients, and only "loss" has a gradient.
    """
    results: Any = _by_position(smoothing, features, weights, kernel, target)
    (values, loss), real = results, target != PAD
    sums = summed(values, real) | {"loss": loss}
    sums["examples"] = jnp.sum(real.any(axis=1), dtype=jnp.float32)
    return jnp.where(real, values["nll"], 0), sums


def output_loss(
    features: Features, kernel: Float[Array, "d v"], target: Int[Array, "b t"], smoothing: float
) -> tuple[Float[Array, "b t"], dict[str, Float[Array, ""]]]:
    """Return the results of `cross_entropy` for the features of any model."""
    if features.mixture is None:
        return cross_entropy(features.vectors, kernel, target, smoothing)
    return mixture_cross_entropy(features.vectors, features.mixture, kernel, target, smoothing)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _by_position(
    smoothing: float,
    features: Float[Array, "b t n d"],
    weights: Float[Array, "b t n"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> tuple[dict[str, Shaped[Array, "b t"]], Float[Array, ""]]:
    """Return the `class_values` of a mixture, and the loss summed without padding."""
    cast = kernel.astype(features.dtype)

    def one_position(slices: tuple[Array, Array, Array]) -> dict[str, Array]:
        features, weights, target = slices
        return class_values(mixture_scores(features, weights, cast), target, smoothing)

    values = jax.lax.map(one_position, _time_first(features, weights, target))
    return _total(jax.tree.map(lambda x: x[:, :, None], values), target)


def _by_position_forward(
    smoothing: float,
    features: Float[Array, "b t n d"],
    weights: Float[Array, "b t n"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> tuple[Any, tuple[Array, Array, Array]]:
    """Forward rule of the custom gradient of `_by_position`.

    Let q be the smoothed reference, m the mixture and p_n its parts. With g = q / m and
    c_n = Σ_v g_v p_n(v), the gradients of the loss −Σ_v q_v log m_v are weights_n p_n (c_n − g)
    with respect to the logits of part n, and −c_n with respect to weights_n.
    """
    cast = kernel.astype(features.dtype)

    def one_position(d_kernel: Array, slices: tuple[Array, ...]) -> tuple[Array, Any]:
        features, weights, target = slices
        log_p = jax.nn.log_softmax(logits(features, cast))
        joint = jnp.exp(log_p + log_weights(weights)[..., None])
        mixture = jnp.maximum(joint.sum(axis=1), 1e-30)
        size = mixture.shape[-1]
        reference = (1 - smoothing) * jax.nn.one_hot(target, size) + smoothing / size
        g = jnp.where((target != PAD)[:, None], reference / mixture, 0)[:, None]
        c = jnp.sum(g * jnp.exp(log_p), axis=-1)
        d_scores = (joint * (c[..., None] - g)).astype(features.dtype)
        d_features = jnp.einsum("bnv,dv->bnd", d_scores, cast)
        d_kernel += jnp.einsum(
            "bnd,bnv->dv", features, d_scores, preferred_element_type=jnp.float32
        )
        values = class_values(jnp.log(mixture), target, smoothing)
        return d_kernel, (values, d_features, -c)

    zeros = jnp.zeros(kernel.shape, jnp.float32)
    slices = _time_first(features, weights, target)
    d_kernel, (values, *gradients) = jax.lax.scan(one_position, zeros, slices)
    d_features, d_weights = _time_first(*gradients)
    results = _total(jax.tree.map(lambda x: x[:, :, None], values), target)
    return results, (d_features, d_weights.astype(weights.dtype), d_kernel.astype(kernel.dtype))


def _by_position_backward(
    smoothing: float, gradients: tuple[Array, Array, Array], d_outputs: Any
) -> tuple[Array, Array, Array, None]:
    d_features, d_weights, d_kernel = ((d_outputs[1] * x).astype(x.dtype) for x in gradients)
    return d_features, d_weights, d_kernel, None


_by_position.defvjp(_by_position_forward, _by_position_backward)


def _time_first(*args: Shaped[Array, "a b ..."]) -> tuple[Shaped[Array, "b a ..."], ...]:
    """Swap the first two axes of every array, those of the batch and of the target positions."""
    return tuple(jnp.swapaxes(x, 0, 1) for x in args)


def posterior(
    features: Float[Array, "b t n d"],
    weights: Float[Array, "b t n"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
) -> Float[Array, "b t n"]:
    """Return p(n | y) ∝ weights_n p(y | features_n) for the target tokens y of a mixture."""

    def joint(features: Array, weights: Array, target: Array) -> Array:
        log_p = jax.nn.log_softmax(logits(features, kernel))
        chosen = jnp.take_along_axis(log_p, target[:, None, None], axis=-1)[..., 0]
        return jax.nn.softmax(chosen + log_weights(weights), axis=-1)

    slices = _time_first(features, weights, target)
    return _time_first(jax.lax.map(lambda x: joint(*x), slices))[0]


def hard_cross_entropy(
    features: Float[Array, "b t 2 d"],
    kernel: Float[Array, "d v"],
    target: Int[Array, "b t"],
    smoothing: float,
    settings: Config,
    sown: dict[str, Float[Array, "b t"]],
) -> dict[str, Float[Array, ""]]:
    """Return the sums of `cross_entropy` for hard attention, with a REINFORCE gradient.

    The features come from two contexts per target position: a sampled one, and the expected one of
    soft attention. "loss" is the mean of their losses, in which train.reinforce.expected is the
    weight of soft attention. The REINFORCE term only contributes its gradient to "loss"; its value
    is "surrogate". "nll" and "accuracy" are those of sampled contexts, and "soft_nll" is −log p for
    expected contexts.
    """
    expected = settings.reinforce.expected
    nll, sums = cross_entropy(features[:, :, 0], kernel, target, smoothing)
    soft_nll, soft = cross_entropy(features[:, :, 1], kernel, target, smoothing)
    entropy = jnp.sum(sown["entropy"], where=target != PAD)
    surrogate = reinforce(nll, soft_nll, target, sown["sampled_log_p"])
    term = settings.reinforce.weight * surrogate - settings.reinforce.entropy * entropy
    gradient_only = term - jax.lax.stop_gradient(term)
    sums["loss"] = (1 - expected) * (sums["loss"] + gradient_only) + expected * soft["loss"]
    return sums | {"soft_nll": soft["nll"], "surrogate": surrogate, "entropy": entropy}


def reinforce(
    nll: Float[Array, "b t"],
    baseline: Float[Array, "b t"],
    target: Int[Array, "b t"],
    sampled_log_p: Float[Array, "b t"],
) -> Float[Array, ""]:
    """Return a value whose gradient is a REINFORCE estimate (Xu 2015 eq. 11).

    The reward of a sampled source position is log p of the target token at its time step, compared
    with log p of the same token in the same decoder state under soft attention, −`baseline`. The
    baseline does not depend on the sample, so the estimate is unbiased for the expected log p of
    each token given the decoder state. It is biased for the log p of the whole sentence if the
    sample also changes later decoder states, because the effect on later tokens is ignored.
    """
    reward = jax.lax.stop_gradient(baseline - nll)
    return -jnp.sum(reward * sampled_log_p, where=target != PAD)


def doubly_stochastic(
    attention: Float[Array, "b t s"], target: Int[Array, "b t"], source_mask: Bool[Array, "b s"]
) -> Float[Array, ""]:
    """Return the doubly stochastic penalty Σ_i (1 − Σ_t α_ti)² (Xu 2015 §4.2.1).

    The penalty encourages the attention weights α_ti of every source position i to sum to 1 over
    the target positions t.
    """
    coverage = jnp.sum(attention, axis=1, where=(target != PAD)[..., None])
    real = source_mask & (target != PAD).any(axis=1, keepdims=True)
    return jnp.sum((1 - coverage) ** 2, where=real)


def guided_alignment(
    attention: Float[Array, "b t s"],
    links: Int[Array, "b n 2"],
    target: Int[Array, "b t"],
    source_mask: Bool[Array, "b s"],
    unlinked: str,
) -> Float[Array, ""]:
    """Return the cross-entropy −Σ_ts a_ts log α_ts between links and attention (Chen 2016).

    `links` are rows (target token, source token), counted from 1 and padded with zeros. If target
    token t is linked to n source tokens s, a_ts is 1/n for these s and 0 for others. If `unlinked`
    is "end", target tokens without links are linked to </s>, the last source token, in sentences
    with at least one link; if it is "ignore", they have no loss.
    """

    def matrix(pairs: Int[Array, "n 2"]) -> Float[Array, "t s"]:
        # Padding becomes a link between the tokens 0, which do not exist.
        empty = jnp.zeros((target.shape[1] + 1, source_mask.shape[1] + 1))
        return empty.at[pairs[:, 0], pairs[:, 1]].set(1)[1:, 1:]

    linked = jax.vmap(matrix)(links)  # unlike indices of rows, vmap keeps rows on their device
    if unlinked == "end":
        end = jax.nn.one_hot(source_mask.sum(axis=1) - 1, source_mask.shape[1])[:, None]
        none = (target != PAD) & linked.any(axis=(1, 2))[:, None] & ~linked.any(axis=2)
        linked = jnp.where(none[..., None], end, linked)
    wanted = linked / jnp.maximum(linked.sum(axis=2, keepdims=True), 1)
    # Local attention has weights of 0 outside its window, which have no gradient.
    return -jnp.sum(wanted * log_weights(attention))


def diagonal_distance(centers: Float[Array, "b t"], target: Int[Array, "b t"]) -> Float[Array, ""]:
    """Return the squared distance of the window centers of local attention from the diagonal.

    The `centers` are fractions of the source length, p_t / S. On the diagonal, this fraction equals
    that of the target position: (t + ½) / T for t = 0, ..., T − 1.
    """
    real = target != PAD
    positions = jnp.arange(target.shape[1])[None] + 0.5
    diagonal = positions / jnp.maximum(real.sum(axis=1, keepdims=True), 1)
    return jnp.sum((centers - diagonal) ** 2, where=real)


def penalty(hops: Float[Array, "b r t"]) -> Float[Array, " b"]:
    """Return the penalty ‖AAᵀ − I‖²_F of the attention weights A (Lin 2017 eq. 8).

    A has one row per attention hop. The penalty encourages each hop to attend to few words, and
    different hops to attend to different words.
    """
    products = jnp.einsum("brt,bqt->brq", hops, hops)
    return jnp.sum((products - jnp.eye(hops.shape[1])[None]) ** 2, axis=(1, 2))
