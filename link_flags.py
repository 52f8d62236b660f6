"""The flags of eval.py and predict.py that choose and combine word links."""

from typing import TYPE_CHECKING, Any

from absl import flags

import program
from errors import UserError

if TYPE_CHECKING:
    from evaluation.alignment import LinkSettings


def define_alignment() -> None:
    """Define the flags that choose and combine word links."""
    flags.DEFINE_string(
        "align_weights", "attention", "Word links: name of the attention weights: 'attention', "
        "'layer 4' (mean over its heads) or 'layer 4 head 0' of a Transformer, or 'posterior' of "
        "marginal attention.",
    )  # fmt: skip
    flags.DEFINE_float(
        "align_threshold", 0.0, "Word links: link all pairs of words with at least this attention "
        "weight; 0: link each target word to the source word with the largest weight.",
    )  # fmt: skip
    flags.DEFINE_string(
        "reverse_workdir", "", "Word links: folder of a run of the reverse direction, whose links "
        "are combined with those of --workdir; several, separated by commas, form an ensemble. "
        "--checkpoint also applies to these runs.",
    )  # fmt: skip
    flags.DEFINE_string(
        "reverse_weights", "", "Word links: the attention weights of --reverse_workdir (default: "
        "--align_weights).",
    )  # fmt: skip
    flags.DEFINE_string(
        "symmetrize", "grow_diag_final_and", "Word links: how to combine both directions: "
        "intersection (links of both), union (links of either), or grow_diag_final_and (the "
        "intersection and some links of the union, see docs/decoding.md).",
    )  # fmt: skip
    program.show_in_help(*_ALIGNMENT_FLAGS)


_ALIGNMENT_FLAGS = (
    "align_weights", "align_threshold", "reverse_workdir", "reverse_weights", "symmetrize",
)  # fmt: skip


def alignment_settings() -> "LinkSettings":
    """Check and return the values of the flags of word links."""
    from evaluation.alignment import LinkSettings
    from training.finding import find_workdirs

    values: Any = [flags.FLAGS[name].value for name in _ALIGNMENT_FLAGS]
    weights, threshold, reverse, reverse_weights, method = values
    idle = [f"--{x}" for x in given_alignment() if x in ("reverse_weights", "symmetrize")]
    if idle and not reverse:
        verb = "have" if len(idle) > 1 else "has"
        raise UserError(f"{' and '.join(idle)} {verb} no effect: add --reverse_workdir")
    runs = tuple(map(str, find_workdirs(reverse, "--reverse_workdir")))
    settings = LinkSettings(weights, threshold, runs, reverse_weights, method)
    settings.check()
    return settings


def given_alignment() -> list[str]:
    """Return the names of the flags of word links that are on the command line."""
    return [name for name in _ALIGNMENT_FLAGS if flags.FLAGS[name].present]
