"""The format safetensors: weights, config and vocabularies, which `load_export` reads again.

model.safetensors   all parameters in float32; a name is the path of a parameter, with dots
config.json         the config of the run
vocabulary/         the vocabularies and their digests
README.md           a description of these files
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax import traverse_util

from errors import first_line
from exporting.description import write_readme
from exporting.folder import write_config, write_vocabularies
from exporting.formats import ExportFormat
from exporting.readmes import SAFETENSORS_README
from reading import DamagedFile, read_bytes, reading
from tasks.registry import make_task
from tasks.task import Params
from training.restore import RestoredRun
from training.vocabularies import check_vocabularies
from training.workdir import VOCABULARY_FOLDER, load_config
from writing import write_bytes

WEIGHTS_FILE = "model.safetensors"
_REMEDY = "export the run again"


class SafetensorsFormat(ExportFormat):
    """Weights, config and vocabularies of a run of any task."""

    packages = ("safetensors",)

    def write(self, run: RestoredRun, folder: Path) -> None:
        write_weights(run.params, run.steps, folder)
        write_config(run.task.config, folder)
        write_vocabularies(run.task, folder)
        arrays = jax.tree.leaves(run.params)
        parameters = sum(x.size for x in arrays)
        text = SAFETENSORS_README.format(arrays=len(arrays), parameters=parameters)
        write_readme(run, folder, text)


def write_weights(params: Params, steps: list[int], folder: Path) -> None:
    """Write parameters to WEIGHTS_FILE, with the training steps of their checkpoints."""
    import safetensors.numpy

    flat: Any = traverse_util.flatten_dict(params, sep=".")
    arrays = {name: np.asarray(x, order="C") for name, x in flat.items()}
    # safetensors.numpy reads and writes only types of NumPy itself, which bfloat16 is not.
    assert all(x.dtype == np.float32 for x in arrays.values())
    metadata = {"steps": " ".join(map(str, steps))}
    write_bytes(folder / WEIGHTS_FILE, safetensors.numpy.save(arrays, metadata))


def load_export(folder: Path | str) -> RestoredRun:
    """Return the task and the parameters of a folder that --format=safetensors wrote."""
    folder = Path(folder)
    config = load_config(folder, flag="the folder")
    vocabularies = folder / VOCABULARY_FOLDER
    check_vocabularies(vocabularies)
    task = make_task(config, vocabularies)
    weights, steps = _read_weights(folder / WEIGHTS_FILE)
    _check_weights(weights, jax.eval_shape(task.init, jax.random.key(0)), folder / WEIGHTS_FILE)
    return RestoredRun(task, traverse_util.unflatten_dict(weights, sep="."), steps)


def _read_weights(path: Path) -> tuple[dict[str, np.ndarray], list[int]]:
    """Return the arrays of a file by name, and the training steps of the checkpoint."""
    import safetensors
    import safetensors.numpy

    read_bytes(path, _REMEDY)  # refuses pipes and folders, on which safe_open would wait or fail
    with reading(path, _REMEDY):
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                flat = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, KeyError) as error:
            raise ValueError(first_line(error)) from error
        steps = [int(step) for step in metadata.get("steps", "").split()]
    return flat, steps


def _check_weights(found: dict[str, np.ndarray], expected: Params, path: Path) -> None:
    """Raise UserError if a parameter of the model is missing, or is another kind of array."""
    wanted: Any = traverse_util.flatten_dict(expected, sep=".")
    for name in sorted({*found, *wanted}):
        kinds = [
            f"of shape {tree[name].shape} and type {tree[name].dtype}" if name in tree else "absent"
            for tree in (found, wanted)
        ]
        if kinds[0] != kinds[1]:
            raise DamagedFile(
                f"{path} does not contain the model of config.json: {name} is {kinds[0]} instead "
                f"of {kinds[1]}", _REMEDY,
            )  # fmt: skip
