"""Export a run: restore a checkpoint and write it to a new folder."""

from pathlib import Path

import jax

from configs.base import Config
from exporting.folder import new_folder
from exporting.formats import find_format
from training.devices import make_mesh
from training.restore import restore_run


def export_run(config: Config, workdir: Path, checkpoint: str, name: str, folder: Path) -> None:
    """Write the checkpoint of a run to `folder`, in the format with this name.

    The format does not depend on the corpus of the run, so only its vocabularies are read.
    """
    export_format = find_format(name)
    export_format.check(config)
    mesh = make_mesh(jax.devices()[:1])
    run = restore_run(config, workdir, mesh, checkpoint, corpus=False)
    run = run._replace(params=jax.device_get(run.params))
    with new_folder(folder) as scratch:
        export_format.write(run, scratch)
