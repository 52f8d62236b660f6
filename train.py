"""Trains the model of a config file; run again, goes on where it stopped.

python train.py --config=configs/luong2015.py:data=dates --workdir=runs/a
"""

from absl import flags

import program

program.define_config()
program.define_hosts()
_WORKDIR = flags.DEFINE_string("workdir", "", "Folder of this run, made if it is not there.")


def main() -> None:
    config, overrides = program.checked_config()
    # After the checks: a slip should not wait for JAX.
    workdir = program.folder(_WORKDIR.value)
    program.connect_hosts()
    from evaluation.runs import train_run
    from training.devices import make_mesh

    train_run(config, workdir, make_mesh(state_shards=config.mesh.state_shards), overrides)


if __name__ == "__main__":
    program.run(main)
