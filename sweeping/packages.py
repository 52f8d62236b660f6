"""Packages that only sweep.py and reproduce.py need."""

from errors import require_packages

PACKAGES = ("optuna", "sqlalchemy", "rich")


def check_packages(program: str, *names: str) -> None:
    """Raise a UserError when a package is not installed.

    `names` defaults to all of PACKAGES.
    """
    require_packages(program, *(names or PACKAGES))
