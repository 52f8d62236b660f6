"""Tests run strict: eight devices, no silent broadcasting, warnings are errors (pyproject.toml)."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
