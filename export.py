"""Export a trained run for other programs.

python export.py --workdir=runs/a --format=safetensors --out=exported/a

--format=safetensors writes weights, config and vocabularies. --format=ctranslate2 writes a
Transformer for CTranslate2. --format=stablehlo writes functions that JAX runs without this project.
--out appears only when the export is complete; a failed export leaves nothing behind.
docs/export.md describes the files.
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import os
from pathlib import Path

from absl import flags

import program
from errors import UserError
from exporting.folder import check_target
from exporting.formats import FORMATS, check_format
from training.workdir import load_config

_WORKDIR = program.define_required("workdir", "Folder of a run that train.py created.")
_FORMAT = program.define_required("format", f"Format of the export: {', '.join(FORMATS)}.")
_OUT = program.define_required("out", "Folder to create; an existing one must be empty.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "best",
    "best, last, the number of a training step, or average (the mean of the latest train.keep "
    "checkpoints).",
)
program.define_decode()


def main() -> None:
    check_format(_FORMAT.value)
    if not _OUT.value:
        raise UserError("--out is missing: name a folder to create, such as --out=exported/a")
    workdir, out = program.folder(_WORKDIR.value), Path(_OUT.value)
    config = load_config(workdir)
    decode = program.decode_settings(config)
    if decode is not None:
        config = config.copy_and_resolve_references().unlock()
        config.decode = decode
    check_target(out)
    os.environ["JAX_PLATFORMS"] = "cpu"  # exports do not depend on the devices of this machine
    # This module imports JAX, which program.run and the line above configure.
    from exporting.run import export_run

    export_run(config.lock(), workdir, _CHECKPOINT.value, _FORMAT.value, out)
    print(f"Exported to {_OUT.value}; its README.md describes the files.")


if __name__ == "__main__":
    program.run(main)
