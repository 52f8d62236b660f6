import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.base import base_config
from data.vocabulary import EOS, PAD
from tasks.losses import (
    MIN_WEIGHT,
    cross_entropy,
    doubly_stochastic,
    guided_alignment,
    reinforce,
)
from tests import reference
from tests.models.test_attention import attend, build, draw


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
                smoothed = np.full(5, smoothing / 5)
                smoothed[target[row, t]] += 1 - smoothing
                loss -= smoothed @ np.log(p)
                nll -= np.log(p[target[row, t]])
    arguments = jnp.array(features), jnp.array(kernel), jnp.array(target)
    _, sums = cross_entropy(*arguments, smoothing)
    np.testing.assert_allclose([sums["loss"], sums["nll"]], [loss, nll], rtol=1e-6)
    assert sums["count"] == 5


def test_the_gradient_of_cross_entropy_equals_that_of_its_equation():
    rng = np.random.default_rng(2)
    features, kernel = jnp.array(rng.normal(size=(3, 7, 4))), jnp.array(rng.normal(size=(4, 9)))
    target = jnp.array(rng.integers(0, 9, (3, 7)))

    def ours(features, kernel):
        return 3 * cross_entropy(features, kernel, target, 0.1, 60)[1]["loss"]

    def theirs(features, kernel):
        log_p = jax.nn.log_softmax(features @ kernel)
        smoothed = 0.9 * jax.nn.one_hot(target, 9) + 0.1 / 9
        return -3 * jnp.sum((log_p * smoothed).sum(axis=-1), where=target != PAD)

    gradients = [jax.grad(f, argnums=(0, 1))(features, kernel) for f in (ours, theirs)]
    for x, y in zip(*gradients, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_cross_entropy_does_not_depend_on_the_chunk_size():
    rng = np.random.default_rng(1)
    features, kernel = jnp.array(rng.normal(size=(3, 7, 4))), jnp.array(rng.normal(size=(4, 9)))
    target = jnp.array(rng.integers(0, 9, (3, 7)))

    def value_and_gradient(max_logits):
        def loss(features, kernel):
            nll, sums = cross_entropy(features, kernel, target, 0.1, max_logits)
            return sums["loss"], (nll, sums)

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(features, kernel)

    whole = jax.tree.leaves(value_and_gradient(10_000))
    for max_logits in (1, 60, 100):  # 27 logits per position, so chunks of 1, 2 and 3 positions
        in_chunks = jax.tree.leaves(value_and_gradient(max_logits))
        for ours, theirs in zip(in_chunks, whole, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_cross_entropy_in_chunks_needs_less_memory_than_all_logits():
    features, kernel = jnp.zeros((8, 64, 4)), jnp.zeros((4, 500))
    target = jnp.zeros((8, 64), int)

    def memory(max_logits):
        loss = lambda f, k: cross_entropy(f, k, target, 0.1, max_logits)[1]["loss"]  # noqa: E731
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
    padding_row = jnp.full((1, 3), PAD)
    assert doubly_stochastic(attention, padding_row, mask) == 0


@pytest.mark.parametrize("unlinked", ["end", "ignore"])
def test_guided_alignment_equals_its_equation(unlinked):
    rng = np.random.default_rng(0)
    attention = rng.dirichlet(np.ones(4), (3, 5))
    attention[0, 1] = [0, 0, 1, 0]  # local attention has weights of 0
    target = jnp.array([[5, 6, 7, EOS, PAD], [5, EOS, PAD, PAD, PAD], [5, 6, EOS, PAD, PAD]])
    mask = jnp.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], bool)
    links = jnp.array([
        [[1, 1], [2, 1], [2, 2], [2, 2], [0, 0]], [[1, 1]] + [[0, 0]] * 4, [[0, 0]] * 5,
    ])  # fmt: skip
    # By row, target token and source tokens, counted from 0; the third row has no links.
    wanted = {(0, 0): [0], (0, 1): [0, 1], (1, 0): [0]}
    if unlinked == "end":
        wanted |= {(0, 2): [3], (0, 3): [3], (1, 1): [1]}
    log = np.log(np.maximum(attention, MIN_WEIGHT))
    expected = -sum(np.mean([log[row, t, s] for s in ends]) for (row, t), ends in wanted.items())

    def loss(attention):
        return guided_alignment(attention, links, target, mask, unlinked)

    value, gradient = jax.value_and_grad(loss)(jnp.asarray(attention, jnp.float32))
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert jnp.isfinite(gradient).all()
    assert guided_alignment(jnp.asarray(attention), links[:, :0], target, mask, unlinked) == 0


@pytest.mark.parametrize("align", ["global", "local_m", "local_p", "hard"])
def test_guided_alignment_moves_attention_to_the_links(align):
    _, module, _, _ = build("general", align)
    query, memory, mask, positions = draw(0, (5, 4), (0, 1, 2))
    params = module.init(jax.random.key(0), query, memory, mask, positions, method=attend)
    target = jnp.array([[5, 6, 7], [5, 6, PAD]])
    links = jnp.array([[[1, 2], [2, 1], [3, 4]], [[1, 1], [2, 3], [0, 0]]])

    @jax.jit
    def value_and_gradient(params):
        def loss(params):
            weights = module.apply(params, query, memory, mask, positions, method=attend)[1]
            return guided_alignment(weights, links, target, mask, "ignore"), weights

        return jax.value_and_grad(loss, has_aux=True)(params)

    (first, weights), gradient = value_and_gradient(params)
    changed = jax.tree.map(lambda p, g: p - 0.02 * g, params, gradient)
    (second, moved), _ = value_and_gradient(changed)
    assert second < first
    linked = [(0, 0, 1), (0, 1, 0), (0, 2, 3), (1, 0, 0), (1, 1, 2)]
    assert sum(moved[i] for i in linked) > sum(weights[i] for i in linked)


def test_the_reward_of_a_sample_sums_the_advantages_of_this_and_later_tokens():
    target = jnp.array([[5, 6, EOS], [7, EOS, PAD]])
    nll = jnp.array([[1.0, 2.0, 3.0], [4.0, 1.0, 9.0]])
    settings = base_config().train.reinforce
    settings.update({"weight": 0.5, "entropy": 0.25})

    def loss(log_p, entropy):
        return reinforce(nll, jnp.array(2.0), target, settings, log_p, entropy)

    gradient = jax.grad(loss, argnums=(0, 1))(jnp.zeros((2, 3)), jnp.ones((2, 3)))
    # With a baseline of 2, the advantages are [1, 0, −1] and [−2, 1].
    rewards = np.array([[0.0, -1.0, -1.0], [-1.0, 1.0, 0.0]])
    np.testing.assert_allclose(gradient[0], -0.5 * rewards, atol=1e-6)
    np.testing.assert_allclose(gradient[1], -0.25 * (target != PAD), atol=1e-6)


def test_the_mean_reinforce_gradient_approaches_the_exact_gradient():
    """With two source positions s and one target token y, the exact loss is −Σ_s α(s) log p(y|s).

    The baseline does not change the expectation of the gradient.
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
