"""Packages that only sweep.py and reproduce.py need."""

import importlib.util

from errors import UserError

PACKAGES = ("optuna", "sqlalchemy", "rich")
INSTALL = "pip install -r requirements.txt"


def check_packages(program: str, *names: str) -> None:
    """Raise a UserError when a package is not installed.

    `names` defaults to all of PACKAGES.
    """
    missing = [name for name in names or PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise UserError(
            f"{program} needs {' and '.join(missing)}, which {verb} not installed: {INSTALL}"
        )
