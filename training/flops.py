"""Floating-point operations of matrix products, and the peak rates of devices."""

import collections
import math
import re
from typing import Any

from jax.extend import core

# The vendors' peak rates of dense bfloat16 matrix products (float16 where a device has no bfloat16)
# in FLOP/s, keyed by a prefix of `jax.Device.device_kind`. The first match counts.
PEAKS = {
    "NVIDIA B200": 2250e12,
    "NVIDIA H200": 989e12,
    "NVIDIA GH200": 989e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H100 NVL": 835e12,
    "NVIDIA H100": 989e12,
    "NVIDIA A100": 312e12,
    "NVIDIA L40S": 362e12,
    "NVIDIA L4": 121e12,
    "Tesla V100": 125e12,
    "Tesla T4": 65e12,
    "TPU v6 lite": 918e12,
    "TPU v5 lite": 197e12,
    "TPU v5e": 197e12,
    "TPU v5p": 459e12,
    "TPU v5": 459e12,
    "TPU v4": 275e12,
}


def peak_rate(device: Any) -> float:
    """Return the peak rate of a `jax.Device` in FLOP/s; NaN if it is unknown."""
    kind = device.device_kind
    known = (rate for name, rate in PEAKS.items() if re.match(rf"{name}\b", kind))
    return math.nan if "MIG" in kind else next(known, math.nan)


def count_flops(jaxpr: core.Jaxpr) -> int:
    """Count the FLOPs of all matrix products, over all iterations of loops with a known length.

    Convolutions are not counted, and neither is attention by cuDNN, which is one operation without
    visible matrix products.
    """
    return flops_by_scope(jaxpr).total()


def flops_by_scope(jaxpr: core.Jaxpr, outer: str = "") -> collections.Counter[str]:
    """Count the FLOPs as `count_flops` does, by name scope; Flax modules are name scopes.

    `outer` is the scope in which `jaxpr` is called.
    """
    counts = collections.Counter[str]()
    for equation in jaxpr.eqns:
        scope = "/".join(filter(None, (outer, str(equation.source_info.name_stack))))
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            factor: Any = equation.invars[0].aval
            result: Any = equation.outvars[0].aval
            counts[scope] += 2 * result.size * math.prod(factor.shape[axis] for axis in contracted)
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        for inner in core.jaxprs_in_params(equation.params):
            for name, flops in flops_by_scope(inner, scope).items():
                counts[name] += times * flops
    return counts
