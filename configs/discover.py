"""Find declarations in the modules of a package, so that a new module needs no registration."""

import importlib
import pkgutil
from typing import TypeVar

T = TypeVar("T")


def discover(package: str, kind: type[T]) -> dict[tuple[str, str], T]:
    """Return every module-level object of type `kind`, by module and variable name.

    Modules are in alphabetical order, and the objects of a module are in the order of their
    definition. An object that other modules of the package import is listed once.
    """
    found: dict[tuple[str, str], T] = {}
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        for name, value in vars(importlib.import_module(f"{package}.{module.name}")).items():
            if isinstance(value, kind) and not any(value is known for known in found.values()):
                found[module.name, name] = value
    return found
