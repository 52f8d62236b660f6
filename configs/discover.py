"""Finds declarations in the modules of a package, so that adding one means adding a file."""

import importlib
import pkgutil
from typing import TypeVar

T = TypeVar("T")


def discover(package: str, kind: type[T]) -> dict[tuple[str, str], T]:
    """Return every module-level object of this type, by module and variable name.

    Modules come in alphabetical order, objects in the order of their definition. An object that is
    imported into another module counts where it is defined first.
    """
    found: dict[tuple[str, str], T] = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        for name, value in vars(importlib.import_module(f"{package}.{module.name}")).items():
            if isinstance(value, kind) and not any(value is known for known in found.values()):
                found[module.name, name] = value
    return found
