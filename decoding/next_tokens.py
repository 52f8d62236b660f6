"""The most probable next tokens of each hypothesis, given the logits of all tokens.

Long rows of values are searched in blocks (docs/performance_decisions.md#continuations-in-blocks).
"""

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Int

from data.vocabulary import BOS, EOS, PAD

TOP_K_BLOCK = 64  # number of values per block in `blocked_top_k`


def mask_invalid(log_p: Float[Array, "b v"], too_short: Bool[Array, " b"]) -> Float[Array, "b v"]:
    """Set log p of <pad> and <s> to −inf, and that of </s> where a hypothesis is `too_short`."""
    token = jnp.arange(log_p.shape[-1])[None]
    invalid = (token == PAD) | (token == BOS) | ((token == EOS) & too_short[:, None])
    return jnp.where(invalid, -jnp.inf, log_p)


def most_probable(
    logits: Float[Array, "b v"], too_short: Bool[Array, " b"], t: Int[Array, ""]
) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
    """Return the most probable valid token of each row and its log p, at any time step t.

    On CPUs, the tokens are searched in blocks; on GPUs, that would be slower.
    """
    return jax.lax.platform_dependent(
        logits, too_short, cpu=most_probable_in_blocks, default=most_probable_by_argmax
    )


def most_probable_by_argmax(
    logits: Float[Array, "b v"], too_short: Bool[Array, " b"]
) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
    """Compute `most_probable` on any device."""
    log_p = mask_invalid(jax.nn.log_softmax(logits), too_short)
    return log_p.argmax(axis=-1), log_p.max(axis=-1)


def most_probable_in_blocks(
    logits: Float[Array, "b v"], too_short: Bool[Array, " b"]
) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
    """Compute `most_probable` faster on CPUs: search only the block with the largest logit."""
    valid = mask_invalid(logits, too_short)
    maxima = _block_maxima(valid)
    first = TOP_K_BLOCK * maxima.argmax(axis=-1)[:, None]  # of the block with the largest logit
    block = jnp.minimum(first + jnp.arange(TOP_K_BLOCK)[None], logits.shape[-1] - 1)
    place = jnp.take_along_axis(valid, block, axis=-1).argmax(axis=-1)
    return first[:, 0] + place, maxima.max(axis=-1) - _normalizers(logits, maxima)


def continuations(
    prefix_log_p: Float[Array, "b k"], logits: Float[Array, "r v"], too_short: Bool[Array, " r"]
) -> tuple[Int[Array, "b n"], Int[Array, "b n"], Float[Array, "b n"]]:
    """Return parent, token and log p of the 2 × width continuations with the largest log p.

    The continuations are sorted by decreasing log p. At most `width` of them end in </s>, so at
    least `width` continuations remain active.
    """
    (batch, width), size = prefix_log_p.shape, logits.shape[-1]
    valid = mask_invalid(logits, too_short)
    maxima = _block_maxima(valid)
    # The normalizers are subtracted where the values are searched, so that there is no array of
    # log-probabilities in memory.
    shift = (prefix_log_p.reshape(-1) - _normalizers(logits, maxima))[:, None]
    log_p, maxima = ((x + shift).reshape(batch, width, -1) for x in (valid, maxima))
    best, index = _search_blocks(log_p, maxima, 2 * width)
    return index // size, index % size, best


def _normalizers(logits: Float[Array, "r v"], maxima: Float[Array, "r n"]) -> Float[Array, " r"]:
    """Return the logarithm of the sum of exp(logits), given the block maxima of valid tokens.

    The block maxima give the largest logit, so that the logits are read only twice: for the maxima
    and for the normalizers.
    """
    invalid = logits[:, jnp.array([PAD, BOS, EOS])]
    largest = jnp.concatenate([maxima, invalid], axis=-1).max(axis=-1)
    largest = jnp.where(jnp.isfinite(largest), largest, 0)
    return jnp.log(jnp.exp(logits - largest[:, None]).sum(axis=-1)) + largest


def blocked_top_k(
    x: Float[Array, "b v"], count: int, block: int = TOP_K_BLOCK
) -> tuple[Float[Array, "b n"], Int[Array, "b n"]]:
    """Compute `jax.lax.top_k(x, count)` faster if the rows are long.

    The largest values are in the blocks with the largest maxima, so only these blocks are searched
    (docs/performance_decisions.md#continuations-in-blocks).
    """
    if x.shape[-1] <= 2 * count * block:
        values, index = jax.lax.top_k(x, count)  # unpacked, because top_k returns a list
        return values, index
    return _search_blocks(x[:, None], _block_maxima(x, block)[:, None], count, block)


def _block_maxima(x: Float[Array, "r v"], block: int = TOP_K_BLOCK) -> Float[Array, "r n"]:
    """Return the largest value of each block of a row; the last block may be shorter."""
    padded = jnp.pad(x, [(0, 0), (0, -x.shape[-1] % block)], constant_values=-jnp.inf)
    return padded.reshape(len(x), -1, block).max(axis=-1)


def _search_blocks(
    x: Float[Array, "b k v"], maxima: Float[Array, "b k m"], count: int, block: int = TOP_K_BLOCK
) -> tuple[Float[Array, "b n"], Int[Array, "b n"]]:
    """Return the largest values of x and their indices on the last two axes, which are flattened.

    `maxima` are the maxima of the blocks on the last axis.
    """
    (batch, _, size), blocks = x.shape, maxima.shape[-1]
    x, maxima = (part.reshape(batch, -1) for part in (x, maxima))
    if x.shape[-1] <= 2 * count * block:
        values, index = jax.lax.top_k(x, count)
        return values, index
    # Search the blocks in their original order, to return the first of equal values, as top_k does.
    chosen = jnp.sort(blocked_top_k(maxima, count, block)[1], axis=-1)[..., None]
    column = chosen % blocks * block + jnp.arange(block)[None, None]
    index = (chosen // blocks * size + column).reshape(batch, -1)
    found = jnp.take_along_axis(x, index, axis=1, mode="clip")
    searched = jnp.where(column.reshape(batch, -1) < size, found, -jnp.inf)
    values, places = jax.lax.top_k(searched, count)
    return values, jnp.take_along_axis(index, places, axis=1)
