import jax
import jax.numpy as jnp
import numpy as np

from configs.base import base_config
from data.vocabulary import EOS, PAD
from tasks.losses import cross_entropy, doubly_stochastic, reinforce
from tests import reference


def test_cross_entropy_equals_its_equation():
    rng = np.random.default_rng(0)
    features, kernel = rng.normal(size=(2, 3, 4)), rng.normal(size=(4, 5))
    target = np.array([[4, 3, 2], [1, 2, PAD]])
    smoothing = 0.1
    loss = nll = 0.0
    for row in range(2):
        for t in range(3):
            if target[row, t] != PAD:
                p = reference.softmax(features[row, t] @ kernel)
                wanted = np.full(5, smoothing / 5)
                wanted[target[row, t]] += 1 - smoothing
                loss -= wanted @ np.log(p)
                nll -= np.log(p[target[row, t]])
    arguments = jnp.array(features), jnp.array(kernel), jnp.array(target)
    _, sums = cross_entropy(*arguments, smoothing)
    np.testing.assert_allclose([sums["loss"], sums["nll"]], [loss, nll], rtol=1e-6)
    assert sums["count"] == 5


def test_the_gradient_of_cross_entropy_is_that_of_its_equation():
    rng = np.random.default_rng(2)
    features, kernel = jnp.array(rng.normal(size=(3, 7, 4))), jnp.array(rng.normal(size=(4, 9)))
    target = jnp.array(rng.integers(0, 9, (3, 7)))

    def ours(features, kernel):
        return 3 * cross_entropy(features, kernel, target, 0.1, 60)[1]["loss"]

    def theirs(features, kernel):
        log_p = jax.nn.log_softmax(features @ kernel)
        wanted = 0.9 * jax.nn.one_hot(target, 9) + 0.1 / 9
        return -3 * jnp.sum((log_p * wanted).sum(axis=-1), where=target != PAD)

    gradients = [jax.grad(f, argnums=(0, 1))(features, kernel) for f in (ours, theirs)]
    for x, y in zip(*gradients, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_cross_entropy_by_parts_is_the_same():
    rng = np.random.default_rng(1)
    features, kernel = jnp.array(rng.normal(size=(3, 7, 4))), jnp.array(rng.normal(size=(4, 9)))
    target = jnp.array(rng.integers(0, 9, (3, 7)))

    def value_and_gradient(held):
        def loss(features, kernel):
            nll, sums = cross_entropy(features, kernel, target, 0.1, held)
            return sums["loss"], (nll, sums)

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(features, kernel)

    whole = jax.tree.leaves(value_and_gradient(10_000))
    for held in (1, 60, 100):  # one, two and three positions at a time
        for ours, theirs in zip(jax.tree.leaves(value_and_gradient(held)), whole, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_cross_entropy_by_parts_holds_few_logits():
    """No array of the compiled gradient is as large as all logits together."""
    features, kernel = jnp.zeros((8, 64, 4)), jnp.zeros((4, 500))
    target = jnp.zeros((8, 64), int)

    def memory(held):
        loss = lambda f, k: cross_entropy(f, k, target, 0.1, held)[1]["loss"]  # noqa: E731
        compiled = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(features, kernel).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    all_logits = 8 * 64 * 500 * 4
    assert memory(8 * 64 * 500) > all_logits
    assert memory(8 * 4 * 500) < all_logits / 2


def test_doubly_stochastic_penalty_equals_its_equation():
    attention = jnp.array([[[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.1, 0.9, 0.0]]])
    target, mask = jnp.array([[5, EOS, PAD]]), jnp.array([[True, True, False]])
    expected = (1 - 0.75) ** 2 + (1 - 1.25) ** 2
    np.testing.assert_allclose(doubly_stochastic(attention, target, mask), expected, rtol=1e-6)
    nobody = doubly_stochastic(attention, jnp.full((1, 3), PAD), mask)  # a row of padding
    assert nobody == 0


def test_the_reward_of_a_sample_is_the_gain_of_this_and_later_tokens():
    target = jnp.array([[5, 6, EOS], [7, EOS, PAD]])
    nll = jnp.array([[1.0, 2.0, 3.0], [4.0, 1.0, 9.0]])
    settings = base_config().train.reinforce
    settings.update({"weight": 0.5, "entropy": 0.25})

    def loss(log_p, entropy):
        return reinforce(nll, jnp.array(2.0), target, settings, log_p, entropy)

    gradient = jax.grad(loss, argnums=(0, 1))(jnp.zeros((2, 3)), jnp.ones((2, 3)))
    # The gains over the average of 2 are 1, 0, -1 and -2, 1; a reward sums its own and later ones.
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
        nll, target = -log_p[chosen][:, None], jnp.full((samples, 1), EOS)
        zeros = jnp.zeros((samples, 1))
        return reinforce(nll, jnp.array(0.9), target, settings, log_alpha, zeros) / samples

    estimate, truth = jax.grad(sampled)(alpha_logit), jax.grad(exact)(alpha_logit)
    np.testing.assert_allclose(estimate, truth, atol=0.01)
