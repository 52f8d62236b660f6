"""How weights start, by the papers' names."""

from collections.abc import Callable

import flax.linen as nn
import jax
from jax.nn.initializers import Initializer


def _uniform(scale: float) -> Initializer:
    """U(−scale, scale): .1 in Luong 2015, .08 in Sutskever 2014."""

    def init(key, shape, dtype=None, out_sharding=None):
        return jax.random.uniform(key, shape, dtype, -scale, scale)

    return init


INITIALIZERS: dict[str, Callable[[float], Initializer]] = {
    "uniform": _uniform,
    "normal": nn.initializers.normal,
    "xavier": lambda scale: nn.initializers.variance_scaling(scale, "fan_avg", "uniform"),
}


def make_initializer(name: str, scale: float) -> Initializer:
    return INITIALIZERS[name](scale)
