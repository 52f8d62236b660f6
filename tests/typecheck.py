"""The type checker that tests/conftest.py applies to every function of the checked packages."""

from collections.abc import Callable
from typing import runtime_checkable

from beartype import BeartypeConf, beartype
from orbax.checkpoint.checkpoint_managers import PolicyCheckpointInfo

runtime_checkable(PolicyCheckpointInfo)  # beartype checks no other protocols

# As in static type checking, an int is also a float.
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable) -> Callable:
    """Check the arguments and the result of every call.

    Constructors are exempt, because JAX calls those of pytrees with leaves of any kind, such as
    shapes and shardings.
    """
    return function if function.__name__ == "__init__" else _check(function)
