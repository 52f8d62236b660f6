"""Changes of a model's input and of its attention weights, for evaluation/faithfulness.py."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int, Key, Shaped

from models.embedding import Embed
from models.replacement import Replace

PERMUTATIONS = 10  # random permutations of the weights of each decision
SHIFTS = 8  # random source tokens to which the shares below of the weight are moved
SHARES = (1.0, 0.5, 0.25)
# The shares of every WeightChange of a decision, in this order: no change, uniform weights,
# permutations, shifts.
MIXTURES = (
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    *[(0.0, 1.0, 0.0, 0.0)] * PERMUTATIONS,
    *[(1 - share, 0.0, 0.0, share) for share in SHARES for _ in range(SHIFTS)],
)
# Random numbers of this relative size break the ties of uniform weights, so that hard attention
# reads a random source position instead of always the first one.
TIES = 1e-4


class WeightChange(NamedTuple):
    """New attention weights of one decision, as a mixture of four kinds of weights.

    There is one key per example, so that the new weights do not depend on the rest of the batch.
    `shares` are the shares of the model's weights, of a random permutation of them, of uniform
    weights, and of a single random position that has all the weight.
    """

    keys: Key[Array, "*k b"]
    shares: Float[Array, "*k 4"]


def weight_changes(keys: Key[Array, " b"]) -> WeightChange:
    """Return all changes of a decision (MIXTURES), given one key per example."""
    split = jax.vmap(lambda key: jax.random.split(key, len(MIXTURES)), out_axes=1)
    return WeightChange(split(keys), jnp.array(MIXTURES))


def uniform_rows(keys: Key[Array, " b"], rows: int, width: int) -> Float[Array, "n s"]:
    """Return `rows` rows of random numbers, of which each example has the same number.

    The rows of an example are adjacent, as the sentences of a document are. They depend only on the
    key of the example, and a larger width adds numbers at the end.
    """
    numbers = jnp.arange(rows // len(keys))
    fold_in = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))
    each = fold_in(keys, numbers).reshape(rows)
    return jax.vmap(lambda key: jax.random.uniform(key, (width,)))(each)


def make_replace(change: WeightChange, t: Int[Array, ""]) -> Replace:
    """Return the function that changes the weights of target position t, and no others.

    Weights that do not belong to target positions are all changed. Layers, heads and hops have the
    same permutation and the same random position. Positions outside the mask keep the weight 0, and
    the sum of the weights does not change.
    """

    def replace(
        weights: Float[Array, "b *r s"],
        mask: Bool[Array, "..."],
        target_positions: Int[Array, "#b t"] | None,
    ) -> Float[Array, "b *r s"]:
        rows = weights.shape[1:-1]
        noise = uniform_rows(change.keys, weights.shape[0], weights.shape[-1])
        noise = noise.reshape(weights.shape[0], *[1] * len(rows), weights.shape[-1])
        noise = jnp.where(mask, noise, 2.0)  # a larger number than all others
        order, total = permutation(noise, mask), weights.sum(axis=-1, keepdims=True)
        order = jnp.broadcast_to(order, weights.shape)
        uniform = jnp.where(mask, 1 + TIES * noise, 0)
        uniform = uniform / jnp.maximum(uniform.sum(axis=-1, keepdims=True), 1)
        chosen = jax.nn.one_hot(noise.argmin(axis=-1), weights.shape[-1]) * mask
        permuted = jnp.take_along_axis(weights, order, axis=-1)
        kept, moved, even, single = (change.shares[i] for i in range(4))
        changed = kept * weights + moved * permuted + (even * uniform + single * chosen) * total
        if target_positions is None:
            return changed
        here = (target_positions == t)[..., None]
        here = here.reshape(here.shape[0], *[1] * (weights.ndim - 3), *here.shape[1:])
        return jnp.where(here, changed, weights)

    return replace


def permutation(noise: Float[Array, "*b s"], mask: Bool[Array, "*#b s"]) -> Int[Array, "*b s"]:
    """Return, for each position, the position whose weight it gets: a permutation of the mask.

    `noise` determines the permutation and must be largest outside the mask.
    """
    # Positions inside the mask, in their order and in a random order; then all others.
    ordered = jnp.argsort(jnp.where(mask, 0, 1), axis=-1, stable=True)
    ordered = jnp.broadcast_to(ordered, noise.shape)
    shuffled = jnp.argsort(noise, axis=-1, stable=True)
    return jnp.take_along_axis(shuffled, jnp.argsort(ordered, axis=-1), axis=-1)


@contextlib.contextmanager
def scaled_embeddings(scale: Float[Array, "b s"]) -> Iterator[None]:
    """Multiply the embedding of every source token by its scale.

    The derivative of an output with respect to a scale of 1 is gradient × input: the inner product
    of the gradient and the embedding. The source is the first text that a model embeds.
    """
    pending = [scale]

    def intercept(call: Any, arguments: Any, options: Any, context: Any) -> Any:
        result = call(*arguments, **options)
        is_lookup = isinstance(context.module, Embed) and context.method_name == "__call__"
        # Positional embeddings are looked up for positions, which have no batch axis.
        if not (pending and is_lookup and arguments[0].ndim > 1):
            return result
        factors = pending.pop().reshape(*arguments[0].shape, 1)
        return (result * factors).astype(result.dtype)

    with nn.intercept_methods(intercept):
        yield


def delete_token(
    values: Shaped[Array, "b *s"], position: Int[Array, " b"]
) -> Shaped[Array, "b *s"]:
    """Delete one token of each text; the following tokens move by one position, up to the padding.

    In a document, [text, sentence, word], positions count through all sentences, and only the
    following words of the same sentence move.
    """
    flat, width = values.reshape(values.shape[0], -1), values.shape[-1]
    index, position = jnp.arange(flat.shape[1])[None], position[:, None]
    moves = (index >= position) & (index // width == position // width)
    following = jnp.concatenate([flat[:, 1:], jnp.zeros_like(flat[:, :1])], axis=1)
    following = jnp.where(index % width == width - 1, 0, following)
    return jnp.where(moves, following, flat).reshape(values.shape)
