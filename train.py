"""Train the model that a config file describes.

python train.py --config=configs/luong2015.py:data=dates --workdir=runs/a

The workdir receives the config, checkpoints, vocabularies, log.jsonl and TensorBoard logs. Run the
same command again to resume an interrupted run from its latest checkpoint. A finished run can be
trained for more steps with a larger --config.train.steps, but not with optimizer.schedule=cosine,
which most tiny and small configs use: start a new run with --init_from instead. --init_from=RUN
starts a new run from the parameters of another run. --summary describes the model instead of
training it (docs/finetuning.md).
"""

if __name__ == "__main__":  # end quietly at Ctrl-C during the imports below
    from terminal import leave_on_interrupt

    leave_on_interrupt(status=130)

import logging
import shlex
import sys
from pathlib import Path

from absl import flags

import program

program.define_config()
program.define_hosts()
_WORKDIR = program.define_required(
    "workdir", "Folder of the run; it is created if needed.", unless="summary"
)
_INIT_FROM = flags.DEFINE_string(
    "init_from", "", "Start a new run from the parameters of another run: RUN, or RUN@CHECKPOINT "
    "with best (default), last, average or a training step; sets config.train.init_from.",
)  # fmt: skip
_SUMMARY = flags.DEFINE_bool(
    "summary", False, "Print the modules, parameters and operations of the model; do not train."
)


def main() -> None:
    changes = {"train.init_from": _INIT_FROM.value} if _INIT_FROM.value else {}
    config, overrides = program.checked_config(changes)
    workdir = None if _SUMMARY.value else program.folder(_WORKDIR.value)
    program.connect_hosts()

    # Importing JAX takes seconds, so it follows the checks above, which report mistakes quickly.
    from experiment import summarize_run, train_run
    from training.devices import divide_cpu, make_mesh
    from training.hosts import is_first_process

    divide_cpu(config)
    mesh = make_mesh(state_shards=config.mesh.state_shards)
    if workdir is None:
        summary = summarize_run(config, mesh)
        if is_first_process():
            print(summary, end="")
        return
    train_run(config, workdir, mesh, overrides)
    # Every process logs this message, but only the first process of a multi-host run shows it.
    split = "test" if config.data.get("splits", {}).get("test", "test") else "valid"
    logging.getLogger("alignax").info("Evaluate this run: %s", _eval_command(workdir, split))


def _eval_command(workdir: Path, split: str) -> str:
    """Return the shell command that evaluates the run."""
    eval_program = Path(sys.argv[0]).with_name("eval.py")
    return shlex.join(["python", str(eval_program), f"--workdir={workdir}", f"--split={split}"])


if __name__ == "__main__":
    program.run(main)
