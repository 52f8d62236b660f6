"""The type checker that tests/conftest.py applies to every function of the checked packages."""

from collections.abc import Callable

from beartype import beartype


def checked(function: Callable) -> Callable:
    """Check the arguments and the result of every call.

    Constructors are exempt, because JAX calls those of pytrees with leaves of any kind, such as
    shapes and shardings.
    """
    return function if function.__name__ == "__init__" else beartype(function)
