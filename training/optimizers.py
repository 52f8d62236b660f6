"""Optimizers and learning-rate schedules by name."""

from collections.abc import Callable

import jax.numpy as jnp
import optax

from configs.base import Config

# Each function below returns a schedule of factors of the learning rate, in addition to the
# warm-up. The learning rate itself is an argument of the training step (`applied_rate`), so that
# runs with different learning rates share one compiled program.


def _constant(settings: Config, steps_per_epoch: float, steps: float) -> optax.Schedule:
    return lambda step: 1.0


def _halving(settings: Config, steps_per_epoch: float, steps: float) -> optax.Schedule:
    """Halve the learning rate after `halve_from` epochs, and again every `halve_every` epochs.

    Luong 2015 starts after 5 epochs (8 with dropout) and halves every epoch. Sutskever 2014 starts
    after 5 epochs and halves every half epoch.
    """

    def factor(step):
        late = step / steps_per_epoch - settings.halve_from
        return 0.5 ** jnp.maximum(0, jnp.floor(late / settings.halve_every) + 1)

    return factor


def _inverse_sqrt(settings: Config, steps_per_epoch: float, steps: float) -> optax.Schedule:
    """The schedule of Vaswani 2017 §5.3, relative to the learning rate at the warm-up's end."""
    warmup = max(1, settings.warmup_steps)
    return lambda step: jnp.sqrt(warmup / jnp.maximum(step + 1, warmup))


def _cosine(settings: Config, steps_per_epoch: float, steps: float) -> optax.Schedule:
    return lambda step: 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(1, step / steps)))


SCHEDULES: dict[str, Callable[[Config, float, float], optax.Schedule]] = {
    "constant": _constant,
    "halving": _halving,
    "inverse_sqrt": _inverse_sqrt,
    "cosine": _cosine,
    # The plateau factor is constant: the trainer lowers TrainState.rate_scale instead.
    "plateau": _constant,
}


def make_schedule(settings: Config, steps_per_epoch: float, steps: int) -> optax.Schedule:
    """Return the factor of the learning rate by training step, with a linear warm-up.

    The warm-up takes `warmup_steps` steps.
    """
    factor = SCHEDULES[settings.schedule](settings, steps_per_epoch, steps)
    warmup = max(1, settings.warmup_steps)

    def schedule(step):
        return jnp.minimum(1, (step + 1) / warmup) * factor(step)

    return schedule


OPTIMIZERS: dict[str, Callable[[Config, optax.Schedule], optax.GradientTransformation]] = {
    "sgd": lambda s, factor: optax.sgd(factor),
    "momentum": lambda s, factor: optax.sgd(factor, momentum=s.momentum),
    "adam": lambda s, factor: optax.adam(factor, s.b1, s.b2, s.eps),
    "adamw": lambda s, factor: optax.adamw(factor, s.b1, s.b2, s.eps, weight_decay=s.weight_decay),
    "adadelta": lambda s, factor: optax.adadelta(factor, s.rho, s.eps),
    "rmsprop": lambda s, factor: optax.rmsprop(factor, eps=s.eps),
    # RPROP adapts the step size of each weight; the learning rate is only its initial value.
    "rprop": lambda s, factor: optax.rprop(s.learning_rate),
}


def make_optimizer(settings: Config, schedule: optax.Schedule) -> optax.GradientTransformation:
    """Return the optimizer named in the config; its updates are for a learning rate of 1."""
    return OPTIMIZERS[settings.name](settings, schedule)


def applied_rate(settings: Config) -> float:
    """Return the factor by which the training step multiplies the updates of the optimizer."""
    return 1.0 if settings.name == "rprop" else settings.learning_rate


def optimizer_rate(settings: Config) -> float:
    """Return the learning rate within the optimizer: rprop's initial step size, otherwise 1."""
    return settings.learning_rate if settings.name == "rprop" else 1.0
