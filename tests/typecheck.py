"""The type checker that tests/conftest.py applies to every function of the checked packages."""

from collections.abc import Callable
from typing import runtime_checkable

from beartype import BeartypeConf, beartype
from orbax.checkpoint.checkpoint_managers import PolicyCheckpointInfo

# beartype checks protocols with isinstance, which fails unless they are runtime_checkable.
runtime_checkable(PolicyCheckpointInfo)

# With this setting, beartype accepts an int as a float, as static type checkers do.
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable) -> Callable:
    """Decorate a function so that the types of its arguments and result are checked.

    Constructors are exempt, because JAX calls the constructors of pytrees with leaves of any type,
    such as shapes and shardings.
    """
    return function if function.__name__ == "__init__" else _check(function)
