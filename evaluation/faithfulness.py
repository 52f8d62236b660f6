"""Measure whether attention weights explain predictions (docs/faithfulness.md).

Three questions are asked of every decision, that is, of every generated token, predicted class or
answer (Jain & Wallace 2019; Wiegreffe & Pinter 2019): does the prediction depend on the most
attended token, do the weights rank source tokens as their importance does, and does the output
change if the weights are replaced?
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh
from jaxtyping import Bool, Float, Int, Key

from data.batches import Batch, padded_batches
from data.store import axis_lengths
from decoding.groups import batch_rows, length_groups, padded_width
from evaluation.bootstrap import confidence_interval, mean_score
from evaluation.explained import ArrayBatch, Explained, Explainer
from evaluation.interventions import (
    MIXTURES,
    PERMUTATIONS,
    make_replace,
    uniform_rows,
    weight_changes,
)
from evaluation.progress import show_progress
from models.replacement import replace_weights
from tasks.task import Params
from training.devices import batch_results, compiled

# Adversarial weights change the output by at most this total variation distance.
MOST_CHANGED = 0.05
MOST_REMOVED = 64  # source tokens per example that are removed; a random sample if there are more
EXAMPLES = 32  # examples per batch
# Limits of the examples in a forward pass and of their source tokens, with padding.
MOST_ROWS, MOST_TOKENS = 2048, 2**18
MOST_OUTPUTS = 2**28  # probabilities that are in memory at a time
_SEED = 0

Values = dict[str, Float[Array, "b t"]]  # values of all decisions by name; NaN: there is no value


def measure_faithfulness(
    explainer: Explainer, params: Params, mesh: Mesh, examples: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the measures of examples, with 95 % confidence intervals, for scores.json.

    Each measure is a mean over decisions. "NAME_low" and "NAME_high" are the limits of its
    interval, from a bootstrap over examples. "examples" and "decisions" are the numbers of both.
    """

    def explain(params: Params, batch: ArrayBatch) -> tuple[Int[Array, " b"], Values]:
        return batch["index"], decision_values(explainer, params, batch)

    run = compiled(mesh, explain)
    batches = _batches(explainer, examples, mesh)
    statistics: dict[str, list[np.ndarray]] = {}
    results = batch_results(run, mesh, params, batches)
    for index, values in show_progress(results, len(batches), "batches"):
        for name, found in values.items():
            rows = found[index >= 0]
            pair = np.nansum(rows, axis=1, dtype=float), np.sum(~np.isnan(rows), axis=1)
            statistics.setdefault(name, []).append(np.stack(pair, axis=1))
    return _summary({name: np.concatenate(rows) for name, rows in statistics.items()})


def _summary(statistics: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the means and intervals of measures, given sums and counts [example, 2]."""
    counts = next(iter(statistics.values()))[:, 1] if statistics else np.zeros(0)
    summary: dict[str, float] = {
        "examples": int(np.sum(counts > 0)), "decisions": int(np.sum(counts)),
    }  # fmt: skip
    for name, rows in statistics.items():
        rows = rows[rows[:, 1] > 0]
        if len(rows):
            value, low, high = confidence_interval(rows, mean_score)
            summary |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return summary


def _batches(
    explainer: Explainer, examples: Sequence[Mapping[str, Any]], mesh: Mesh
) -> list[Batch]:
    """Return batches of few different shapes."""
    lengths = [axis_lengths(explainer.fields, example) for example in examples]
    batches = []
    for width, group in length_groups([max(n) for n in lengths], EXAMPLES):
        longest = np.array([lengths[i] for i in group]).max(axis=0)
        shape = [min(width, padded_width(int(n))) for n in longest]
        outputs = len(MIXTURES) * explainer.output_size(shape[0])
        most = min(EXAMPLES, MOST_OUTPUTS // outputs)
        rows = batch_rows(len(group), mesh.size, most)
        batches += padded_batches(explainer.fields, examples, group, rows, shape)
    return batches


def decision_values(explainer: Explainer, params: Params, batch: ArrayBatch) -> Values:
    """Compute all measures of the decisions of a batch."""
    batch = explainer.decide(params, batch)
    # One key per example: the results depend neither on the batches nor on the number of devices.
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(_SEED), batch["index"])
    removable = explainer.removable(batch)
    explained = explainer.explain(params, batch)
    attention = jnp.where(removable[:, None], explained.attention, 0)
    # Without weight on any token, as in an empty window of local attention, nothing is explained.
    real = explainer.decisions(batch) & (attention.sum(axis=-1) > 0)
    real &= removable.sum(axis=1, keepdims=True) > 1
    values = removal_values(explainer, params, batch, explained._replace(attention=attention), keys)
    values |= replacement_values(explainer, params, batch, keys)
    values |= concentration_values(attention)
    return {name: jnp.where(real, x, jnp.nan) for name, x in values.items()}


def concentration_values(attention: Float[Array, "b t s"]) -> Values:
    """Measure how strongly the weights of each decision concentrate on a few source tokens."""
    p = attention / jnp.maximum(attention.sum(axis=-1, keepdims=True), 1e-30)
    entropy = -jnp.sum(p * jnp.log(jnp.where(p > 0, p, 1)), axis=-1)
    return {"effective_tokens": jnp.exp(entropy), "largest_weight": p.max(axis=-1)}


def removal_values(
    explainer: Explainer,
    params: Params,
    batch: ArrayBatch,
    explained: Explained,
    keys: Key[Array, " b"],
) -> Values:
    """Compare attention with gradients and with the drop of log p if a source token is removed.

    `explained` are the decisions, with the attention weights of the removable tokens only.
    """
    log_p, attention = explained
    decisions, tokens = attention.shape[1:]
    outputs = decisions * explainer.output_size(tokens)
    rows = min(MOST_ROWS, MOST_TOKENS // tokens, MOST_OUTPUTS // outputs)

    def chunked(function: Callable[[Array], Array], xs: Array) -> Array:
        return in_chunks(function, xs, max(1, rows // attention.shape[0]))

    removable = explainer.removable(batch)
    gradient = jnp.abs(explainer.gradient_input(params, batch, chunked))
    gradient = jnp.where(removable[:, None], gradient, 0)
    tops = [jnp.where(removable[:, None], x, -1).argmax(axis=-1) for x in (attention, gradient)]
    positions, sampled = _removed(removable, tops, keys)

    def drop(position: Int[Array, " b"]) -> Float[Array, "b t"]:
        return log_p - explainer.explain(params, explainer.without(batch, position)).log_p

    drops = jnp.moveaxis(chunked(drop, positions.T), 0, 2)
    of_attention, of_gradient = (_at(drops, positions, top) for top in tops)
    count = sampled.shape[1]
    mask = sampled[:, None]
    each = jnp.broadcast_to(positions[:, None, :count], (*drops.shape[:2], count))
    weights, importance = (jnp.take_along_axis(x, each, axis=2) for x in (attention, gradient))
    random = jnp.sum(drops[:, :, :count], axis=2, where=mask) / jnp.maximum(mask.sum(axis=2), 1)
    return {
        "drop_attention": of_attention,
        "drop_gradient": of_gradient,
        "drop_random": random,
        "tau_gradient": kendall_tau(weights, importance, mask),
        "tau_removal": kendall_tau(weights, jnp.abs(drops[:, :, :count]), mask),
    }


def _removed(
    removable: Bool[Array, "b s"], tops: Sequence[Int[Array, "b t"]], keys: Key[Array, " b"]
) -> tuple[Int[Array, "b n"], Bool[Array, "b m"]]:
    """Return the positions to remove, and which of the first m are tokens of a random sample.

    The sample contains all tokens if there are at most MOST_REMOVED. Otherwise, the sample is
    followed by `tops`.
    """
    if removable.shape[1] <= MOST_REMOVED:
        positions = jnp.arange(removable.shape[1])[None]
        return jnp.broadcast_to(positions, removable.shape), removable
    noise = jnp.where(removable, uniform_rows(keys, *removable.shape), -1)
    found, positions = jax.lax.top_k(noise, MOST_REMOVED)
    return jnp.concatenate([positions, *tops], axis=1), found >= 0


def _at(
    drops: Float[Array, "b t n"], positions: Int[Array, "b n"], chosen: Int[Array, "b t"]
) -> Float[Array, "b t"]:
    """Return, for each decision, the drop for the chosen one of the removed positions."""
    index = (positions[:, None] == chosen[:, :, None]).argmax(axis=2)
    return jnp.take_along_axis(drops, index[:, :, None], axis=2)[:, :, 0]


def replacement_values(
    explainer: Explainer, params: Params, batch: ArrayBatch, keys: Key[Array, " b"]
) -> Values:
    """Compare the output of each decision with the outputs for other attention weights.

    The weights of other decisions are not replaced. Adversarial weights are those, among all
    changes, that differ most from the model's weights although the prediction is the same and the
    output changes by at most MOST_CHANGED.
    """
    outputs = explainer.outputs(params, batch)

    def changes(t: Int[Array, ""]) -> tuple[Float[Array, "k b"], ...]:
        def change(one: Any) -> tuple[Array, Array]:
            with replace_weights(make_replace(one, t)):
                return outputs(t)

        here = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
        p, weights = jax.vmap(change)(weight_changes(here))
        changed = p.argmax(axis=-1) != p[:1].argmax(axis=-1)
        distance = jensen_shannon(weights, jnp.broadcast_to(weights[:1], weights.shape))
        return 0.5 * jnp.abs(p - p[:1]).sum(axis=-1), changed.astype(jnp.float32), distance

    decisions = jnp.arange(explainer.decisions(batch).shape[1])
    found = (jnp.moveaxis(x, 0, 2) for x in jax.lax.map(changes, decisions))
    tv, changed, distance = found  # [change, example, decision]; the first change is none
    permuted = slice(2, 2 + PERMUTATIONS)
    allowed = jnp.where((tv <= MOST_CHANGED) & (changed == 0), distance, 0)
    best = allowed.argmax(axis=0)[None]
    return {
        "permuted_tv": tv[permuted].mean(axis=0),
        "permuted_changed": changed[permuted].mean(axis=0),
        "uniform_tv": tv[1],
        "uniform_changed": changed[1],
        "adversarial_jsd": allowed.max(axis=0),
        "adversarial_tv": jnp.take_along_axis(tv, best, axis=0)[0],
        "largest_jsd": distance.max(axis=0),
    }


def in_chunks(function: Callable[[Array], Array], xs: Array, width: int) -> Array:
    """Map a function over the rows of xs, about `width` rows at a time."""
    chunks = -(-len(xs) // width)
    width = -(-len(xs) // chunks)
    # The last row fills the last chunk.
    index = jnp.minimum(jnp.arange(chunks * width), len(xs) - 1)
    results = jax.lax.map(jax.vmap(function), xs[index].reshape(chunks, width, *xs.shape[1:]))
    return results.reshape(chunks * width, *results.shape[2:])[: len(xs)]


def kendall_tau(
    x: Float[Array, "*b n"], y: Float[Array, "*b n"], mask: Bool[Array, "*#b n"]
) -> Float[Array, "*b"]:
    """Return Kendall's rank correlation τ-b of masked values; NaN if all x or all y are equal."""

    def signs(values: Float[Array, "*b n"]) -> Float[Array, "*b n n"]:
        pairs = mask[..., :, None] & mask[..., None, :]
        return jnp.where(pairs, jnp.sign(values[..., :, None] - values[..., None, :]), 0)

    first, second = signs(x), signs(y)
    both, *alone = (
        (a * b).sum(axis=(-2, -1)) for a, b in ((first, second), (first, first), (second, second))
    )
    return both / jnp.sqrt(alone[0] * alone[1])


def jensen_shannon(p: Float[Array, "*b s"], q: Float[Array, "*b s"]) -> Float[Array, "*b"]:
    """Return the Jensen–Shannon divergence of normalized weights, in nats: at most ln 2."""
    p, q = (x / jnp.maximum(x.sum(axis=-1, keepdims=True), 1e-30) for x in (p, q))
    middle = (p + q) / 2

    def divergence(x: Array) -> Array:
        ratio = jnp.where(x > 0, x, 1) / jnp.where(x > 0, middle, 1)
        return jnp.sum(x * jnp.log(ratio), axis=-1)

    return jnp.clip((divergence(p) + divergence(q)) / 2, 0, math.log(2))
