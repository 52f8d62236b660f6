import jax.numpy as jnp
import numpy as np
import optax
import pytest

from configs.base import base_config
from training.optimizers import OPTIMIZERS, applied_rate, make_optimizer, make_schedule


def rates(steps, steps_per_epoch=10.0, total=100, **settings):
    optimizer = base_config().optimizer
    optimizer.update({"learning_rate": 1.0, **settings})
    schedule = make_schedule(optimizer, steps_per_epoch, total)
    return [optimizer.learning_rate * float(schedule(step)) for step in steps]


def test_luong_halves_every_epoch_after_the_fifth():
    epochs = [0, 49, 50, 59, 60, 99]
    expected = [1, 1, 0.5, 0.5, 0.25, 2**-5]
    assert rates(epochs, schedule="halving", halve_from=5.0, halve_every=1.0) == expected


def test_sutskever_halves_every_half_epoch_after_the_fifth():
    steps = [49, 50, 54, 55, 60, 74]
    expected = [1, 0.5, 0.5, 0.25, 0.125, 2**-5]
    assert rates(steps, schedule="halving", halve_from=5.0, halve_every=0.5) == expected


def test_inverse_sqrt_equals_the_transformer_schedule():
    d, warmup = 512, 40
    ours = rates(
        range(200), schedule="inverse_sqrt", warmup_steps=warmup,
        learning_rate=d**-0.5 * warmup**-0.5,
    )  # fmt: skip
    paper = [d**-0.5 * min(s**-0.5, s * warmup**-1.5) for s in range(1, 201)]
    np.testing.assert_allclose(ours, paper, rtol=1e-5)


def test_cosine_schedule_ends_at_zero_and_constant_schedule_warms_up():
    np.testing.assert_allclose(rates([0, 50, 100], schedule="cosine"), [1, 0.5, 0], atol=1e-7)
    assert rates([0, 4, 9, 500], schedule="constant", warmup_steps=10) == pytest.approx(
        [0.1, 0.5, 1, 1]
    )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_reduces_the_loss(name):
    settings = base_config().optimizer
    settings.update({"name": name, "learning_rate": 0.05, "weight_decay": 0.01})
    if name == "adadelta":
        settings.update({"learning_rate": 1.0, "eps": 1e-3})
    optimizer = make_optimizer(settings, optax.constant_schedule(1.0))
    params = jnp.array([1.0, -2.0])
    state = optimizer.init(params)
    for _ in range(100):
        updates, state = optimizer.update(2 * params, state, params)
        params += applied_rate(settings) * updates
    assert float(jnp.sum(jnp.asarray(params) ** 2)) < 0.5


def test_the_learning_rate_of_rprop_is_only_its_initial_step_size():
    settings = base_config().optimizer
    settings.update({"name": "rprop", "learning_rate": 0.3})
    optimizer = make_optimizer(settings, optax.constant_schedule(1.0))
    gradient, params = jnp.array([5.0, -0.1]), jnp.zeros(2)
    _, state = optimizer.update(
        gradient, optimizer.init(params), params
    )  # optax only stores its sign
    updates, _ = optimizer.update(gradient, state, params)
    np.testing.assert_allclose(applied_rate(settings) * updates, [-0.3, 0.3], rtol=1e-6)


def test_weight_decay_shrinks_parameters_without_gradient():
    settings = base_config().optimizer
    settings.update({"name": "adamw", "weight_decay": 0.1})
    optimizer = make_optimizer(settings, optax.constant_schedule(0.5))
    params = jnp.array([2.0])
    updates, _ = optimizer.update(jnp.zeros(1), optimizer.init(params), params)
    np.testing.assert_allclose(updates, [-0.5 * 0.1 * 2.0], rtol=1e-6)


def test_the_first_adadelta_step_matches_the_paper():
    settings = base_config().optimizer
    settings.update({"name": "adadelta", "rho": 0.95, "eps": 1e-6})
    optimizer = make_optimizer(settings, optax.constant_schedule(1.0))
    g = 0.3
    updates, _ = optimizer.update(jnp.array([g]), optimizer.init(jnp.zeros(1)), jnp.zeros(1))
    expected = -np.sqrt(1e-6) / np.sqrt(0.05 * g**2 + 1e-6) * g
    np.testing.assert_allclose(updates, [expected], rtol=1e-4)
