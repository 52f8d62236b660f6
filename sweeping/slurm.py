"""Submit the workers of a sweep as a SLURM job array, with submitit."""

# pyright: reportMissingImports=false

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from errors import UserError, first_line
from sweeping.devices import ROOT
from writing import writing


def submit(
    flags: Sequence[str], jobs: int, settings: dict[str, Any], folder: Path, cluster: str = "slurm"
) -> list[Any]:
    """Submit `jobs` jobs that run sweep.py with `flags` and share one study in a database.

    Only the user can read the files in `folder`, which contain commands and output. The jobs
    inherit the environment of this process.
    """
    try:
        import submitit
    except ImportError:
        raise UserError("--slurm needs submitit: pip install submitit") from None
    with writing(folder, "run the same command again"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
    except RuntimeError as error:  # the programs of SLURM are not installed
        raise UserError(f"--slurm: {first_line(error)}") from None
    try:
        executor.update_parameters(name="sweep", **settings)
    except NameError as error:  # submitit raises NameError for an unknown setting
        raise UserError(f"--slurm contains a setting that submitit rejects: {error}") from None
    command = [sys.executable, str(ROOT / "sweep.py"), *flags]
    function = submitit.helpers.CommandFunction(command)
    try:
        with executor.batch():
            submitted = [executor.submit(function) for _ in range(jobs)]
    except RuntimeError as error:  # sbatch has failed
        raise UserError(f"--slurm: SLURM refused the jobs: {first_line(error)}") from None
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(0o600)
    return submitted


def parse_settings(text: str) -> dict[str, Any]:
    """Parse the value of --slurm, such as partition=gpu,timeout_min=600,gpus_per_node=1."""
    settings: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"--slurm: {item!r} is not a setting: write it as name=value")
        known = name in ("timeout_min", "gpus_per_node", "cpus_per_task", "mem_gb", "nodes")
        settings[name if known else f"slurm_{name}"] = int(value) if value.isdigit() else value
    return settings
