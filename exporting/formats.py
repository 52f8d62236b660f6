"""The formats of export.py, by name."""

import importlib
from pathlib import Path
from typing import Any

from configs.base import Config
from configs.registry import resolve
from errors import UserError, require_packages


class ExportFormat:
    """Base class of formats; importing a format does not import its packages."""

    packages: tuple[str, ...] = ()  # packages that export.py needs for this format

    def check(self, config: Config) -> None:
        """Raise UserError if this format cannot represent the model or the settings of a run."""

    def write(self, run: Any, folder: Path) -> None:
        """Write a `RestoredRun` to an empty folder."""
        raise NotImplementedError


# Each path is "module:class". The modules import JAX, so they are imported when they are needed.
FORMATS = {
    "safetensors": "exporting.safetensors_files:SafetensorsFormat",
    "ctranslate2": "exporting.ctranslate2_files:CTranslate2Format",
    "stablehlo": "exporting.stablehlo_files:StableHLOFormat",
}


def check_format(name: str) -> None:
    """Raise UserError unless `name`, the value of --format, is the name of a format."""
    if name not in FORMATS:
        problem = f"--format={name} is unknown" if name else "--format is missing"
        raise UserError(f"{problem}: use one of {', '.join(FORMATS)}")


def find_format(name: str) -> ExportFormat:
    """Return the format with this name; raise UserError if one of its packages is missing."""
    found = resolve(FORMATS[name])()
    require_packages(f"--format={name}", *found.packages)
    for package in found.packages:
        # Ctrl-C during an import ends the program, so import before there are unfinished files.
        importlib.import_module(package)
    return found
