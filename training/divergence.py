"""The criterion for diverged runs, and the errors and warnings that report them."""

from errors import UserError

# A run has diverged if its losses are this many times the loss of its first training step.
DIVERGED = 10.0
_REMEDY = (
    "lower optimizer.learning_rate, or clip gradients to a smaller optimizer.clip_norm, and train "
    "in a new workdir"
)


def has_diverged(first: float, training: float, validation: float) -> bool:
    """Return whether the losses at an evaluation mean that training has diverged.

    `first` is the loss of the first training step, and `training` the mean training loss since
    the last report. Both `training` and `validation` must exceed DIVERGED × |first|: overfitting
    raises only the validation loss, and a batch of outliers only the training loss. A |first| below
    1 counts as 1, so that the small or negative losses of a regression can vary freely. NaN exceeds
    any limit.
    """
    limit = DIVERGED * max(abs(first), 1.0)
    return not (training <= limit or validation <= limit)


def diverged(
    step: int, first: float, training: float, validation: float, kept: int | None
) -> UserError:
    """Return the error for a run in which `has_diverged` is true.

    `kept` is the step of the latest checkpoint, or None if there is none.
    """
    return UserError(
        f"training diverged at step {step:,}: the training loss is {training:.4g} and the "
        f"validation loss {validation:.4g}, but the loss of the first training step was "
        f"{first:.4g}; {_REMEDY} ({_kept(kept)})"
    )


def skipping_error(step: int, skipped: int, in_row: int, kept: int | None) -> UserError:
    """Return the error for a run that has skipped train.max_skipped training steps in a row.

    Of the first `step` training steps, `skipped` were skipped in total and `in_row` in a row.
    `kept` is the step of the latest checkpoint, or None.
    """
    if skipped == step:
        return none_finite(step)
    return UserError(
        f"training diverged at step {step:,}: {in_row} consecutive training steps had a loss or "
        f"gradient that is not finite, the limit set by config.train.max_skipped; {_REMEDY} "
        f"({_kept(kept)})"
    )


def skipping_warning(step: int, new: int, skipped: int) -> str:
    """Return the warning for `new` training steps that were skipped since the last report."""
    return (
        f"warning: step {step:,}: skipped training steps since the last report: {new:,}, in total: "
        f"{skipped:,}; their loss or gradient was not finite"
    )


def none_finite(steps: int) -> UserError:
    """Return the error for a run whose training steps have all been skipped.

    The learning rate cannot be the cause, because no update was applied.
    """
    return UserError(
        f"no training step so far had a finite loss and gradient ({steps:,} steps): check the "
        "training data for values that are not finite or very large, lower model.init_scale if the "
        "model has it, and use model.dtype=float32 if it is bfloat16"
    )


_VALIDATION_REMEDY = (
    "check the validation data for values that are not finite or very large, and use "
    "model.dtype=float32 if it is bfloat16"
)


def validation_warning(step: int, loss: float) -> str:
    """Return the warning for one evaluation whose loss is not finite."""
    return f"warning: the validation loss at step {step:,} is {loss}; {_VALIDATION_REMEDY}"


def no_validation_loss(step: int, training: float, kept: int | None) -> UserError:
    """Return the error for a run in which no evaluation had a finite loss.

    `training` is the mean training loss since the last report, and `kept` the step of the latest
    checkpoint, or None.
    """
    return UserError(
        f"the validation loss was not finite in any evaluation up to step {step:,}, although the "
        f"training loss is {training:.4g}: {_VALIDATION_REMEDY} ({_kept(kept)})"
    )


def _kept(step: int | None) -> str:
    return "no checkpoint was saved" if step is None else f"the checkpoint of step {step:,} is kept"
