"""Trains the model of a config file; run again, goes on where it stopped.

python train.py --config=configs/luong2015.py:data=dates --workdir=runs/a
"""

from absl import flags

import program

program.define_config()
_WORKDIR = flags.DEFINE_string("workdir", "", "Folder of this run, made if it is not there.")


def main() -> None:
    config, overrides = program.checked_config()
    # After the checks: a slip should not wait for JAX.
    from evaluation.registry import make_evaluate
    from tasks.registry import make_task
    from training.devices import check_rows, make_mesh
    from training.loop import train
    from training.workdir import VOCABULARIES, check_workdir, open_workdir

    workdir, mesh = program.folder(_WORKDIR.value), make_mesh()
    check_workdir(workdir, config)
    check_rows(mesh, config)
    task = make_task(config)
    open_workdir(workdir, config, overrides, task.data_name)
    task.save_vocabularies(workdir / VOCABULARIES)
    train(task, make_evaluate(config.task, task, mesh), config, workdir, mesh)


if __name__ == "__main__":
    program.run(main)
