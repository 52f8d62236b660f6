"""Trains the model of a config file; run again, goes on where it stopped.

python train.py --config=configs/luong2015.py:data=dates --workdir=runs/a
"""

from pathlib import Path

from absl import flags

import program

program.define_config()
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Folder of this run, made if it is not there.", required=True
)


def main() -> None:
    config, overrides = program.checked_config()
    # After the checks: a slip should not wait for JAX.
    from evaluation.registry import make_evaluate
    from tasks.registry import make_task
    from training.devices import make_mesh
    from training.loop import train
    from training.workdir import open_workdir

    workdir = Path(_WORKDIR.value)
    open_workdir(workdir, config, overrides)
    task, mesh = make_task(config), make_mesh()
    train(task, make_evaluate(task, mesh), config, workdir, mesh)


if __name__ == "__main__":
    program.run(main)
