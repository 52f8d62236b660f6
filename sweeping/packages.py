"""Check whether the packages that only sweep.py and reproduce.py need are installed."""

from errors import require_packages

PACKAGES = ("optuna", "sqlalchemy", "rich")


def check_packages(program: str, *names: str) -> None:
    """Raise a UserError if a package in `names` (default: PACKAGES) is not installed."""
    require_packages(program, *(names or PACKAGES))
