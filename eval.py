"""Scores a trained run on a split of its corpus and keeps what it wrote.

python eval.py --workdir=runs/a --split=test

Prints perplexity, BLEU (sacreBLEU's and the papers' tokenised one), chrF and exact match; writes
scores.json, hypotheses.txt and pictures of the attention to WORKDIR/eval/SPLIT.
"""

from absl import flags

import program

_WORKDIR = flags.DEFINE_string("workdir", "", "Folder of a run that train.py made.")
_SPLIT = flags.DEFINE_enum("split", "test", ["valid", "test"], "What to score.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "best",
    "best, last, the number of a step, or average: of the latest that are kept.",
)
_BEAM = flags.DEFINE_integer("beam", 0, "Hypotheses a sentence; 0: config.decode.beam.", 0)
_PICTURES = flags.DEFINE_integer("pictures", 4, "Attention pictures to draw.", lower_bound=0)


def main() -> None:
    from evaluation.registry import REPORTS
    from tasks.registry import make_task
    from training.checkpoints import Checkpoints
    from training.devices import check_rows, make_mesh
    from training.workdir import check_data, load_config

    workdir = program.folder(_WORKDIR.value)
    config = load_config(workdir)
    checkpoints = Checkpoints(workdir, config.train.keep, read_only=True)
    steps = checkpoints.find(_CHECKPOINT.value)
    mesh = make_mesh()
    check_rows(mesh, config)
    task = make_task(config)
    check_data(workdir, task.data_name)
    params = checkpoints.restore_params(task, config, mesh, steps)
    folder = workdir / "eval" / _SPLIT.value
    folder.mkdir(parents=True, exist_ok=True)
    beam = _BEAM.value or config.decode.beam
    REPORTS[config.task](task, params, mesh, _SPLIT.value, steps, beam, folder, _PICTURES.value)
    print(f"kept in {folder}")


if __name__ == "__main__":
    program.run(main)
