import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.base import base_config
from data.vocabulary import BOS, EOS, PAD
from tasks.translation import cross_entropy, doubly_stochastic, reinforce, shift_right
from tests import reference


@pytest.fixture(scope="module")
def params(tiny_task):
    return jax.jit(tiny_task.init)(jax.random.key(0))


def test_padding_changes_nothing(tiny_task, params):
    batch = tiny_task.train_batches()[0]
    wider = {name: np.pad(batch[name], ((0, 3), (0, 5))) for name in ("source", "target")}

    @jax.jit
    def sums_and_gradient(params, batch):
        def objective(params):
            sums = tiny_task.loss(params, batch)
            return sums["loss"], sums

        gradient, sums = jax.grad(objective, has_aux=True)(params)
        return sums, gradient

    sums, gradient = sums_and_gradient(params, batch)
    padded_sums, padded_gradient = sums_and_gradient(params, wider)
    np.testing.assert_allclose(padded_sums["loss"], sums["loss"], rtol=1e-6)
    for padded, plain in zip(*map(jax.tree.leaves, (padded_gradient, gradient)), strict=True):
        np.testing.assert_allclose(padded, plain, rtol=1e-4, atol=1e-5)
    assert sums["count"] == padded_sums["count"] == (batch["target"] != PAD).sum()
    assert sums["accuracy"] == padded_sums["accuracy"]


def test_loss_is_the_mean_over_tokens_whatever_the_batch(tiny_task, params):
    """Two half batches with uneven lengths add up to the whole one."""
    batch = tiny_task.train_batches()[0]
    loss = jax.jit(tiny_task.loss)
    cuts = ({name: x[i * 8 : i * 8 + 8] for name, x in batch.items()} for i in range(2))
    halves = [loss(params, half) for half in cuts]
    whole = loss(params, batch)
    for name in whole:
        np.testing.assert_allclose(halves[0][name] + halves[1][name], whole[name], rtol=1e-5)


def test_cross_entropy_equals_its_equation():
    rng = np.random.default_rng(0)
    logits, target = rng.normal(size=(2, 3, 5)), np.array([[4, 3, 2], [1, 2, PAD]])
    smoothing = 0.1
    loss = nll = 0.0
    for row in range(2):
        for t in range(3):
            if target[row, t] != PAD:
                p = reference.softmax(logits[row, t])
                wanted = np.full(5, smoothing / 5)
                wanted[target[row, t]] += 1 - smoothing
                loss -= wanted @ np.log(p)
                nll -= np.log(p[target[row, t]])
    _, sums = cross_entropy(logits.astype(np.float32), target, smoothing)
    np.testing.assert_allclose([sums["loss"], sums["nll"]], [loss, nll], rtol=1e-6)
    assert sums["count"] == 5


def test_the_decoder_reads_what_stands_before():
    target = np.array([[7, 8, EOS, PAD]])
    np.testing.assert_array_equal(shift_right(target), [[BOS, 7, 8, EOS]])


def test_dropout_acts_only_with_a_key(tiny_task, params):
    batch = tiny_task.train_batches()[0]
    loss = jax.jit(tiny_task.loss)
    calm = loss(params, batch, None)["loss"]
    assert calm == loss(params, batch, None)["loss"]
    noisy = [loss(params, batch, jax.random.key(i))["loss"] for i in (0, 0, 1)]
    assert noisy[0] == noisy[1] != noisy[2] != calm


def test_smoothing_is_of_training_alone(tiny_task, params):
    batch = tiny_task.train_batches()[0]
    task = copy.copy(tiny_task)
    task.config = tiny_task.config.copy_and_resolve_references()
    task.config.train.label_smoothing = 0.2
    calm, key = task.loss(params, batch), jax.random.key(0)
    assert calm["loss"] == calm["nll"]
    noisy = task.loss(params, batch, key)
    assert noisy["loss"] != noisy["nll"]
    assert noisy["examples"] == (batch["index"] >= 0).sum()


def test_doubly_stochastic_penalty_equals_its_equation():
    attention = np.array([[[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.1, 0.9, 0.0]]])
    target, mask = np.array([[5, EOS, PAD]]), np.array([[True, True, False]])
    expected = (1 - 0.75) ** 2 + (1 - 1.25) ** 2
    np.testing.assert_allclose(doubly_stochastic(attention, target, mask), expected, rtol=1e-6)
    nobody = doubly_stochastic(attention, np.full((1, 3), PAD), mask)  # a row of padding
    assert nobody == 0


def test_reinforce_rewards_what_is_still_to_come():
    target = np.array([[5, 6, EOS], [7, EOS, PAD]])
    nll = jnp.array([[1.0, 2.0, 3.0], [4.0, 1.0, 9.0]])
    settings = base_config().train.reinforce
    settings.update({"weight": 0.5, "entropy": 0.25})

    def loss(log_p, entropy):
        return reinforce(nll, jnp.array(2.0), target, settings, log_p, entropy)

    gradient = jax.grad(loss, argnums=(0, 1))(jnp.zeros((2, 3)), jnp.ones((2, 3)))
    # gains over the average of 2 are 1, 0, -1 and -2, 1; each step counts those from it on
    to_come = np.array([[0.0, -1.0, -1.0], [-1.0, 1.0, 0.0]])
    np.testing.assert_allclose(gradient[0], -0.5 * to_come, atol=1e-6)
    np.testing.assert_allclose(gradient[1], -0.25 * (target != PAD), atol=1e-6)


def test_hard_attention_learns_the_exact_gradient_on_average():
    """Over many samples, REINFORCE's gradient approaches that of the exact marginal loss.

    One source of two words, one target word, no baseline: E[loss] = −Σ_s α(s) log p(y|s).
    """
    alpha_logit, log_p = jnp.array(0.3), jnp.array([-0.2, -1.7])

    def exact(logit):
        alpha = jax.nn.softmax(jnp.array([logit, 0.0]))
        return -jnp.sum(alpha * log_p)

    settings = base_config().train.reinforce
    settings.update({"weight": 1.0, "entropy": 0.0})
    samples = 40_000
    chosen = jax.random.bernoulli(jax.random.key(0), jax.nn.sigmoid(-0.3), (samples,)).astype(int)

    def sampled(logit):
        log_alpha = jax.nn.log_softmax(jnp.array([logit, 0.0]))[chosen][:, None]
        nll, target = -log_p[chosen][:, None], np.full((samples, 1), EOS)
        zeros = jnp.zeros((samples, 1))
        return reinforce(nll, jnp.array(0.9), target, settings, log_alpha, zeros) / samples

    estimate, truth = jax.grad(sampled)(alpha_logit), jax.grad(exact)(alpha_logit)
    np.testing.assert_allclose(estimate, truth, atol=0.01)
