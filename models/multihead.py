"""Multi-head attention (Vaswani 2017 §3.2), with a KV cache for decoding."""

import dataclasses
import functools
import math
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Bool, Float, Int

from models.attention import masked_softmax
from models.dropout import Dropout
from models.initializers import XAVIER
from models.replacement import is_replacing, replaced

KeysValues = tuple[Float[Array, "b s h k"], Float[Array, "b s h v"]]
# Keys and values of all tokens in each of n beam slots; those of token t in slot i have the index
# t * n + i. The head axis precedes this axis, so that attention is a matrix product batched
# over b and h without a transposition.
KVCache = tuple[Float[Array, "b h c k"], Float[Array, "b h c v"]]

# Smallest source and target length for which cuDNN's flash attention is faster than XLA's attention
# (docs/performance_decisions.md#cudnns-flash-attention-from-64-positions-on).
FLASH_FROM = 64


@dataclasses.dataclass(frozen=True)
class LayerShape:
    """Hyperparameters that all layers of a Transformer share."""

    features: int  # d_model, the width of every layer's input and output
    heads: int  # h, the number of attention heads
    key_features: int  # d_k, the key width of one head
    feed_forward: int  # d_ff, the hidden width of the feed-forward network
    pre_norm: bool  # whether layer normalization precedes each sublayer, instead of following it
    dropout: float
    attention_dropout: float
    dtype: DTypeLike

    def dense(self, features: int, use_bias: bool = False) -> nn.Dense:
        """Return a dense layer with the compute dtype of the model."""
        return nn.Dense(features, use_bias, self.dtype, kernel_init=XAVIER.kernel)


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani 2017 §3.2.2).

    Concat(head_1, …, head_h) W_O, where head_i = softmax(Q W_Qⁱ (K W_Kⁱ)ᵀ / √d_k) V W_Vⁱ. The
    layers W_Q, W_K and W_V contain the matrices of all heads i side by side.
    """

    shape: LayerShape

    def setup(self) -> None:
        shape = self.shape
        self.W_Q = shape.dense(shape.heads * shape.key_features)
        self.W_K = shape.dense(shape.heads * shape.key_features)
        self.W_V = shape.dense(shape.features)
        self.W_O = shape.dense(shape.features)
        self.drop = Dropout(shape.attention_dropout)

    def keys_values(self, states: Float[Array, "b s d"]) -> KeysValues:
        """Project states to the keys and values of all heads."""
        return self._heads(self.W_K(states)), self._heads(self.W_V(states))

    def __call__(
        self,
        x: Float[Array, "b t d"],
        keys_values: KeysValues,
        lengths: Int[Array, " b"] | None = None,
        causal: bool = False,
        weights: bool = False,
        deterministic: bool = True,
        target_positions: Int[Array, "#b t"] | None = None,
    ) -> tuple[Float[Array, "b t d"], Float[Array, "b h t s"] | None]:
        """Attend from each position of x to the first `lengths` source positions.

        With `causal`, a position attends only to itself and to earlier positions. The attention
        weights are returned if `weights` is set, and sown if the collection "attention" is mutable.
        Neither changes the output, because the weights are computed in addition to the fused
        attention of `attend`, which is used unless attention dropout is applied or the weights are
        replaced (models/replacement.py). Only weights with `target_positions` can be replaced.
        """
        query, (keys, values) = self._heads(self.W_Q(x)), keys_values
        sown = self.is_mutable_collection("attention") and not self.is_initializing()
        drops = self.shape.attention_dropout > 0 and not deterministic
        replaces = target_positions is not None and is_replacing()
        alpha = None
        if weights or sown or drops or replaces:
            alpha = attention_weights(query, keys, lengths, causal)
        if alpha is not None and replaces:
            alpha = replaced(alpha, _source_mask(keys, lengths), target_positions)
        if sown:
            self.sow("attention", "weights", alpha)
        if drops or replaces:  # fused attention supports neither, so multiply the weights here
            assert alpha is not None
            kept = self.drop(alpha, deterministic=deterministic).astype(values.dtype)
            context = jnp.einsum("bhts,bshv->bthv", kept, values)
        else:
            context = attend(query, keys, values, lengths, causal)
        return self.W_O(context.reshape(*x.shape)), alpha if weights else None

    def step(
        self,
        x: Float[Array, "b n d"],
        cache: KVCache,
        t: Int[Array, ""],
        seen: Bool[Array, "b n c"],
    ) -> tuple[Float[Array, "b n d"], KVCache]:
        """Compute one decoding time step with a KV cache.

        Write the keys and values of token t of all n hypotheses to the cache, then attend to the
        cached tokens that belong to the prefix of each hypothesis. `seen` is true for these tokens.
        """
        update = jax.lax.dynamic_update_slice_in_dim
        new = (x.swapaxes(1, 2) for x in self.keys_values(x))  # [batch, head, hypothesis, width]
        first = t * x.shape[1]
        keys, values = (update(old, x, first, axis=2) for old, x in zip(cache, new, strict=True))
        query, scale = self._heads(self.W_Q(x)), 1 / math.sqrt(keys.shape[-1])
        scores = jnp.einsum("bqhk,bhsk->bhqs", query, keys, preferred_element_type=jnp.float32)
        weights = masked_softmax(scores * scale, seen[:, None]).astype(values.dtype)
        context = jnp.einsum("bhqs,bhsv->bhqv", weights, values).swapaxes(1, 2)
        return self.W_O(context.reshape(*x.shape)), (keys, values)

    def _heads(self, x: Float[Array, "b s _"]) -> Float[Array, "b s h _"]:
        return x.reshape(*x.shape[:2], self.shape.heads, -1)


def attend(
    query: Float[Array, "b t h k"],
    keys: Float[Array, "b s h k"],
    values: Float[Array, "b s h v"],
    lengths: Int[Array, " b"] | None,
    causal: bool,
) -> Float[Array, "b t h v"]:
    """Compute softmax(Q Kᵀ / √d_k) V (Vaswani 2017 eq. 1), as fast as the device allows."""
    scale = 1 / math.sqrt(keys.shape[-1])
    if lengths is not None:
        # Rows without source tokens attend to one position, because cuDNN's gradient would be NaN.
        lengths = jnp.maximum(lengths, 1)
    # Pad keys to the width of values, as dot_product_attention requires; zeros change no product.
    missing = values.shape[-1] - keys.shape[-1]
    if missing:
        query, keys = (jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, missing))) for x in (query, keys))
    implementation, t = _implementation(query, keys), query.shape[1]
    if implementation == "cudnn":
        # With cuDNN, JAX 0.11 and earlier cannot differentiate attention over odd numbers of
        # positions.
        if lengths is None and keys.shape[1] % 2:
            lengths = jnp.full(keys.shape[:1], keys.shape[1])
        query, keys, values = map(_padded_to_even, (query, keys, values))
    context = jax.nn.dot_product_attention(
        query, keys, values, scale=scale, is_causal=causal, key_value_seq_lengths=lengths,
        implementation=implementation,
    )  # fmt: skip
    return context[:, :t]


def _padded_to_even(x: Float[Array, "b s h k"]) -> Float[Array, "b p h k"]:
    """Append a position of zeros if the number of positions is odd."""
    return jnp.pad(x, ((0, 0), (0, x.shape[1] % 2), (0, 0), (0, 0)))


def _implementation(query: Array, keys: Array) -> Literal["cudnn", "xla"]:
    """Select cuDNN's flash attention where it is available, supports the inputs and is faster."""
    supported = query.dtype == jnp.bfloat16 and query.shape[-1] % 8 == 0 and query.shape[-1] <= 128
    if not (supported and _has_flash()):
        return "xla"  # before lengths are compared, because export.py traces with unknown lengths
    return "cudnn" if min(query.shape[1], keys.shape[1]) >= FLASH_FROM else "xla"


@functools.cache
def _has_flash() -> bool:
    device = jax.devices()[0]
    if device.platform != "gpu" or "nvidia" not in device.device_kind.lower():
        return False
    # cuDNN's flash attention needs compute capability 8 (Ampere) or newer.
    return float(getattr(device, "compute_capability", 0)) >= 8


def attention_weights(
    query: Float[Array, "b t h k"],
    keys: Float[Array, "b s h k"],
    lengths: Int[Array, " b"] | None,
    causal: bool,
) -> Float[Array, "b h t s"]:
    """Compute the attention weights softmax(Q Kᵀ / √d_k) of all heads (Vaswani 2017 eq. 1)."""
    scores = jnp.einsum("bthk,bshk->bhts", query, keys, preferred_element_type=jnp.float32)
    t, s = scores.shape[-2:]
    mask = jnp.tri(t, s, dtype=bool) if causal else jnp.ones((t, s), bool)
    mask = mask[None, None] & _source_mask(keys, lengths)
    return masked_softmax(scores / math.sqrt(keys.shape[-1]), mask)


def _source_mask(
    keys: Float[Array, "b s h k"], lengths: Int[Array, " b"] | None
) -> Bool[Array, "#b 1 1 s"]:
    """Return which source positions are within the lengths; all are if there are no lengths."""
    positions = jnp.arange(keys.shape[1])[None, None, None]
    if lengths is None:
        return positions >= 0
    return positions < lengths[:, None, None, None]
