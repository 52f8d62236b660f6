"""Trains the model of a config file; the same command again continues an interrupted run.

python train.py --config=configs/luong2015.py:data=dates --workdir=runs/a
"""

from absl import flags

import program

program.define_config()
program.define_hosts()
_WORKDIR = flags.DEFINE_string("workdir", "", "Folder of this run; it is created if needed.")


def main() -> None:
    config, overrides = program.checked_config()
    workdir = program.folder(_WORKDIR.value)
    program.connect_hosts()

    # Imported after the checks above: a mistake should not wait for JAX.
    from experiment import train_run
    from training.devices import make_mesh

    mesh = make_mesh(state_shards=config.mesh.state_shards)
    train_run(config, workdir, mesh, overrides)


if __name__ == "__main__":
    program.run(main)
