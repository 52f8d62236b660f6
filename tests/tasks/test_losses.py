import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.base import base_config
from data.vocabulary import EOS, PAD
from tasks.losses import (
    chunk_count,
    cross_entropy,
    diagonal_distance,
    doubly_stochastic,
    guided_alignment,
    hard_cross_entropy,
    mixture_cross_entropy,
    posterior,
    reinforce,
)
from tests import reference
from tests.models.test_attention import attend, build, draw
from tests.models.test_scan import loop_equations


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


@pytest.mark.parametrize("length, least, count", [(50, 3, 5), (48, 3, 3), (7, 1, 1), (53, 3, 3)])
def test_chunks_have_no_padding_unless_the_length_has_no_suitable_divisor(length, least, count):
    assert chunk_count(length, least) == count


@pytest.mark.parametrize("differentiate", [lambda loss: loss, jax.grad])
@pytest.mark.parametrize("mixture", [False, True])
def test_the_output_matrix_is_cast_before_the_loop_over_target_positions(differentiate, mixture):
    kernel, target = jnp.zeros((4, 9)), jnp.ones((2, 6), int)

    def loss(kernel):
        if mixture:
            features, weights = jnp.zeros((2, 6, 3, 4), jnp.bfloat16), jnp.ones((2, 6, 3)) / 3
            return mixture_cross_entropy(features, weights, kernel, target, 0.1)[1]["loss"]
        features = jnp.zeros((2, 6, 4), jnp.bfloat16)
        return cross_entropy(features, kernel, target, 0.1, max_logits=2 * 9 * 2)[1]["loss"]

    in_loops = list(loop_equations(jax.make_jaxpr(differentiate(loss))(kernel).jaxpr))
    assert any(e.primitive.name == "dot_general" for e in in_loops)
    casts = [e for e in in_loops if e.primitive.name == "convert_element_type"]
    assert kernel.shape not in [e.outvars[0].aval.shape for e in casts]


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


def test_the_distance_from_the_diagonal_equals_its_equation():
    target = jnp.array([[5, 6, 7, EOS], [5, EOS, PAD, PAD], [PAD] * 4])
    diagonal = jnp.array([[1 / 8, 3 / 8, 5 / 8, 7 / 8], [1 / 4, 3 / 4, 9, 9], [9] * 4])
    assert diagonal_distance(diagonal, target) == 0
    moved = diagonal.at[0, 1].add(0.5).at[1, 0].add(-0.25)
    np.testing.assert_allclose(diagonal_distance(moved, target), 0.5**2 + 0.25**2, rtol=1e-6)


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
    log = np.log(np.maximum(attention, 1e-30))
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


class ToyAttention:
    """Three target tokens and two source positions, small enough to enumerate all samples.

    α_t = softmax(logits_t). −log p of target token t depends on the sampled positions s_1, ..., s_t
    or, if `independent`, on s_t only, as in a decoder without input feeding.
    """

    def __init__(self, independent=False):
        rng = np.random.default_rng(0)
        self.logits = jnp.array(rng.normal(size=(3, 2)), jnp.float32)
        self.samples = np.array(list(itertools.product(range(2), repeat=3)))
        self.nll, self.baseline = np.zeros((2, 8, 3))
        for t in range(3):
            table = rng.uniform(0.2, 3, (2,) * (t + 1))
            if independent:
                table = np.broadcast_to(table[(0,) * t], table.shape)
            p = jax.nn.softmax(self.logits[t]) @ np.exp(-table).reshape(-1, 2).T
            for i, sample in enumerate(self.samples):
                self.nll[i, t] = table[tuple(sample[: t + 1])]
                # The probability under soft attention depends on earlier samples only.
                self.baseline[i, t] = -np.log(np.ravel(p)[_index(sample[:t])])

    def log_alpha(self, logits):
        """Return log α_t(s_t) for every sample [8, 3]."""
        return jax.nn.log_softmax(logits)[jnp.arange(3), self.samples]

    def moments(self, estimate):
        """Return mean and variance of the gradient of `estimate(log_alpha, i)` over samples i."""
        gradient = jax.grad(lambda logits, i: estimate(self.log_alpha(logits), i))
        gradients = np.stack([gradient(self.logits, i) for i in range(8)])
        p = np.exp(self.log_alpha(self.logits).sum(axis=1))
        mean = np.tensordot(p, gradients, axes=1)
        return mean, np.tensordot(p, (gradients - mean) ** 2, axes=1).sum()


def _index(bits):
    return int("0" + "".join(map(str, bits)), 2)


TOKENS = jnp.array([[5, 6, EOS]])


def soft_baseline(toy):
    def estimate(log_alpha, i):
        rows = (jnp.array(x[i : i + 1]) for x in (toy.nll, toy.baseline))
        return reinforce(*rows, TOKENS, log_alpha[i : i + 1])

    return estimate


def test_the_reinforce_estimate_is_unbiased_for_each_token_given_earlier_samples():
    toy = ToyAttention()

    def exact(logits):
        alpha = jnp.exp(toy.log_alpha(logits))
        before = jnp.cumprod(jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=1), axis=1)[:, :3]
        # The weight of a sample of s_1, ..., s_t is divided by its number of continuations.
        weights = jax.lax.stop_gradient(before) * alpha / jnp.array([[4, 2, 1]])
        return jnp.sum(weights * toy.nll)

    mean, _ = toy.moments(soft_baseline(toy))
    np.testing.assert_allclose(mean, jax.grad(exact)(toy.logits), atol=1e-6)


@pytest.mark.parametrize("independent", [True, False])
def test_the_reinforce_estimate_for_whole_sentences(independent):
    """Without an effect on later tokens, the estimate is unbiased; with one, it is biased."""
    toy = ToyAttention(independent)

    def exact(logits):
        return jnp.sum(jnp.exp(toy.log_alpha(logits).sum(axis=1)) * toy.nll.sum(axis=1))

    mean, _ = toy.moments(soft_baseline(toy))
    difference = np.abs(mean - jax.grad(exact)(toy.logits)).max()
    assert difference < 1e-6 if independent else difference > 0.01


def test_the_reinforce_estimate_has_less_variance_than_that_of_xu():
    """In Xu 2015, the reward is log p of the sentence, and the baseline is a moving average."""
    toy = ToyAttention(independent=True)
    average = np.exp(toy.log_alpha(toy.logits).sum(axis=1)) @ toy.nll.mean(axis=1)

    def whole_sentence(log_alpha, i):
        reward = jnp.cumsum((average - toy.nll[i])[::-1])[::-1]
        return -jnp.sum(reward * log_alpha[i])

    (mean, variance), (xu_mean, xu_variance) = map(
        toy.moments, (soft_baseline(toy), whole_sentence)
    )
    np.testing.assert_allclose(mean, xu_mean, atol=1e-6)
    assert variance < 0.75 * xu_variance


def test_hard_cross_entropy_adds_only_the_gradient_of_the_surrogate():
    rng = np.random.default_rng(3)
    draw_features = rng.normal(size=(1, 3, 2, 4))
    features, kernel = jnp.array(draw_features, jnp.float32), jnp.array(rng.normal(size=(4, 8)))
    log_p = jnp.array([[-0.5, -1.0, -2.0]])
    settings = base_config().train
    settings.reinforce.update({"weight": 2.0, "expected": 0.6, "entropy": 0.1})

    def loss(log_p):
        sown = {"sampled_log_p": log_p, "entropy": -log_p}
        sums = hard_cross_entropy(features, kernel, TOKENS, 0.0, settings, sown)
        return sums["loss"], sums

    (value, sums), gradient = jax.value_and_grad(loss, has_aux=True)(log_p)
    np.testing.assert_allclose(value, 0.4 * sums["nll"] + 0.6 * sums["soft_nll"], rtol=1e-5)
    nll, soft_nll = (cross_entropy(features[:, :, i], kernel, TOKENS, 0.0)[0] for i in range(2))
    np.testing.assert_allclose(sums["surrogate"], jnp.sum((nll - soft_nll) * log_p), rtol=1e-5)
    np.testing.assert_allclose(gradient, 0.4 * (2 * (nll - soft_nll) + 0.1), rtol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradients_of_a_mixture_equal_those_of_its_equation(smoothing):
    keys = jax.random.split(jax.random.key(0), 3)
    features = jax.random.normal(keys[0], (2, 3, 4, 5))
    weights = jax.nn.softmax(jax.random.normal(keys[1], (2, 3, 4)))
    kernel, target = jax.random.normal(keys[2], (5, 7)), jnp.array([[3, 6, 4], [5, 2, 0]])

    def expected(features, weights, kernel):
        log_p = jax.nn.log_softmax(features @ kernel[None, None])
        p = jnp.einsum("btn,btnv->btv", weights, jnp.exp(log_p))
        nll = -jnp.take_along_axis(jnp.log(p), target[..., None], axis=-1)[..., 0]
        loss = (1 - smoothing) * nll - smoothing * jnp.log(p).mean(axis=-1)
        return jnp.sum(loss, where=target != PAD)

    def measured(features, weights, kernel):
        return mixture_cross_entropy(features, weights, kernel, target, smoothing)[1]["loss"]

    arguments = features, weights, kernel
    assert jnp.allclose(measured(*arguments), expected(*arguments), rtol=1e-5)
    gradients = (jax.grad(f, argnums=(0, 1, 2))(*arguments) for f in (measured, expected))
    for found, wanted in zip(*gradients, strict=True):
        assert jnp.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_mixture_and_posterior_equal_their_equations():
    rng = np.random.default_rng(4)
    features, kernel = rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(4, 8))
    weights = rng.dirichlet(np.ones(5), (2, 3))
    weights[0, 0] = [0, 0.5, 0.5, 0, 0]  # padding has weight 0
    target = np.array([[5, 6, EOS], [7, EOS, PAD]])
    p = np.exp(features @ kernel)
    p /= p.sum(axis=-1, keepdims=True)
    chosen = np.take_along_axis(p, target[..., None, None], axis=-1)[..., 0]
    joint = weights * chosen
    arguments = (jnp.array(x, jnp.float32) for x in (features, weights, kernel))
    features, weights, kernel = arguments
    found = posterior(features, weights, kernel, jnp.array(target))
    expected = joint / joint.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-20)
    nll, sums = mixture_cross_entropy(features, weights, kernel, jnp.array(target), 0.0)
    expected = np.where(target == PAD, 0, -np.log(joint.sum(axis=-1)))
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    np.testing.assert_allclose([sums["loss"], sums["nll"]], [expected.sum()] * 2, rtol=1e-5)
    assert (sums["count"], sums["examples"]) == (5, 2)
