"""Replace the attention weights that a model computes, to measure what depends on them.

Every attention over source tokens passes its final weights through `replaced`, which returns them
unchanged unless it is called inside `replace_weights`.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

from jax import Array
from jaxtyping import Bool, Float, Int

# A function of attention weights, the mask of the positions that may have weight, and the target
# position of each row of weights (None if the weights do not belong to target positions). It
# returns the new weights.
Replace = Callable[
    [Float[Array, "b *r s"], Bool[Array, "..."], Int[Array, "#b t"] | None],
    Float[Array, "b *r s"],
]
_active: contextvars.ContextVar[Replace | None] = contextvars.ContextVar("replace", default=None)


@contextlib.contextmanager
def replace_weights(replace: Replace) -> Iterator[None]:
    """Replace the attention weights of all models that are traced in this context.

    Use it inside a function that is compiled: JAX caches compiled functions without regard to it.
    """
    token = _active.set(replace)
    try:
        yield
    finally:
        _active.reset(token)


def is_replacing() -> bool:
    """Return whether the weights are replaced, so that they must be computed explicitly."""
    return _active.get() is not None


def replaced(
    weights: Float[Array, "b *r s"],
    mask: Bool[Array, "..."],
    target_positions: Int[Array, "#b t"] | None = None,
) -> Float[Array, "b *r s"]:
    """Return the weights, or those that the function of `replace_weights` returns for them."""
    replace = _active.get()
    return weights if replace is None else replace(weights, mask, target_positions)
