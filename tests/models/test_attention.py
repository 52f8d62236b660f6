import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.base import base_config
from models.attention import (
    ALIGNMENTS,
    Global,
    LocalMonotonic,
    make_alignment,
    masked_softmax,
)
from models.initializers import XAVIER
from models.scores import SCORES
from tests import reference
from tests.models.test_cells import random_params

WIDTH = 4
DOT = SCORES["dot"](query_width=WIDTH, key_width=WIDTH)
PAIRS = list(itertools.product(SCORES, ALIGNMENTS))


def attend(module, query, memory, mask, steps):
    return module(query, module.source(memory, mask, True), steps)


@functools.cache
def build(score, align, D=2, renormalize=False, max_source=9):
    model = base_config().model
    model.encoder.features = model.decoder.features = WIDTH
    model.attention.update({
        "score": score, "align": align, "D": D, "renormalize": renormalize,
        "max_source": max_source,
    })  # fmt: skip
    module = make_alignment(model, XAVIER, jnp.float32)

    def apply(params, *inputs):
        return module.apply({"params": params}, *inputs, method=attend)

    def loss(tree, mask, steps):
        context, weights = apply(*tree, mask, steps)
        return jnp.sum(jnp.sin(context)) + jnp.sum(weights**2), (context, weights)

    return model.attention, module, jax.jit(apply), jax.jit(jax.grad(loss, has_aux=True))


def draw(seed, lengths, steps):
    """Return queries, memory padded to the longest + 2, its mask, and target positions."""
    rng = np.random.default_rng(seed)
    longest = max(lengths) + 2
    query = rng.normal(0, 2, (len(lengths), len(steps), WIDTH))
    memory = rng.normal(0, 1, (len(lengths), longest, WIDTH))
    mask = np.arange(longest) < np.array(lengths)[:, None]
    positions = np.tile(steps, (len(lengths), 1))
    return (
        jnp.asarray(query, jnp.float32), jnp.asarray(memory, jnp.float32), jnp.asarray(mask),
        jnp.asarray(positions),
    )  # fmt: skip


def check_against_the_equations(score, align, D, renormalize, seed, lengths, steps):
    """Compare contexts, weights and gradients with respect to parameters, queries and memory."""
    config, module, _, gradient = build(score, align, D, renormalize)
    query, memory, mask, positions = draw(seed, lengths, steps)

    def init(key, *arguments):
        return {"params": {}, **module.init(key, *arguments, method=attend)}

    params = random_params(init, query, memory, mask, positions)
    gradients, (context, weights) = gradient((params, query, memory), mask, positions)

    def equations(tree):
        w, query, memory = tree
        return [
            [
                reference.attend(config, w, query[row, i], memory[row, :length], t)
                for i, t in enumerate(steps)
            ]
            for row, length in enumerate(lengths)
        ]

    def loss(tree):
        return sum(np.sin(c).sum() + (a**2).sum() for row in equations(tree) for c, a in row)

    exact = tuple(map(reference.as_float64, (params, query, memory)))
    for row, expected in enumerate(equations(exact)):
        length = lengths[row]
        for i, (c, a) in enumerate(expected):
            np.testing.assert_allclose(weights[row, i, :length], a, atol=3e-6)
            np.testing.assert_array_equal(weights[row, i, length:], 0)
            if align == "hard" and length > 1 and np.diff(np.sort(a))[-1] < 1e-4:
                return  # a tie: either position may be read
            np.testing.assert_allclose(context[row, i], c, atol=2e-5)
    reference.check_gradient(loss, exact, gradients, np.random.default_rng(seed))


@pytest.mark.parametrize(("score", "align"), PAIRS, ids=str)
def test_every_pair_equals_its_equations(score, align):
    check_against_the_equations(score, align, 2, False, 0, lengths=[7, 1, 4], steps=[0, 3, 6, 8])


# Lengths are of three kinds and shapes few, because each shape is compiled.
@settings(max_examples=25, deadline=None)
@given(
    align=st.sampled_from(["local_m", "local_p"]),
    D=st.sampled_from([1, 3, 9]),
    renormalize=st.booleans(),
    seed=st.integers(0, 2**16),
    lengths=st.tuples(st.just(6), st.integers(1, 6), st.sampled_from([1, 2, 6])),
    start=st.integers(0, 9),
)
def test_windows_of_any_width_and_position_equal_their_equations(
    align, D, renormalize, seed, lengths, start
):
    """Includes S < D, S = 1, windows cut at both ends or by padding, and empty windows."""
    steps = [start, start + 1, start + 5]
    check_against_the_equations("general", align, D, renormalize, seed, list(lengths), steps)


@pytest.mark.parametrize("bias", [-60.0, 60.0])
def test_predicted_positions_reach_both_ends(bias):
    config, module, apply, _ = build("dot", "local_p")
    query, memory, mask, steps = draw(1, [5, 3], [0])
    params = random_params(
        lambda key, *a: module.init(key, *a, method=attend), query, memory, mask, steps
    )
    params["v_p"]["kernel"] = jnp.sign(params["v_p"]["kernel"]) * bias
    params["W_p"]["kernel"] = (
        jnp.sign(query[0, 0])[:, None] * jnp.sign(params["v_p"]["kernel"]).T * jnp.sign(bias)
    )
    _, weights = apply(params, query, memory, mask, steps)
    w = reference.as_float64(params)
    for row, length in enumerate((5, 3)):
        h, states = map(reference.as_float64, (query[row, 0], memory[row, :length]))
        expected = reference.align(config, w, h, states, 0)
        np.testing.assert_allclose(weights[row, 0, :length], expected, atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_a_window_as_wide_as_the_source_is_global(score):
    query, memory, mask, steps = draw(2, [6, 3], [0, 2, 5])
    _, module, local, _ = build(score, "local_m", D=8)
    _, _, everything, _ = build(score, "global")
    params = random_params(
        lambda key, *a: {"params": {}, **module.init(key, *a, method=attend)},
        query, memory, mask, steps,
    )  # fmt: skip
    for ours, theirs in zip(
        local(params, query, memory, mask, steps),
        everything(params, query, memory, mask, steps),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_hard_samples_have_the_expectation_of_the_soft_context():
    """The mean over many samples approaches the context of soft attention."""
    _, module, _, _ = build("dot", "hard")
    query, memory, mask, steps = draw(3, [4], [0])
    repeated = [jnp.repeat(x, 20_000, axis=0) for x in (query, memory, mask, steps)]

    def sample(module, query, memory, mask, steps):
        source = module.source(memory, mask, False).replace(expected=jnp.zeros(len(query), bool))
        return module(query, source, steps, False)

    rngs = {"sample": jax.random.key(0)}
    (context, alpha), sown = module.apply(
        {}, *repeated, method=sample, rngs=rngs, mutable=["reinforce"]
    )
    states, a = map(reference.as_float64, (memory[0], alpha[0, 0]))
    spread = np.sqrt(a @ states**2 - (a @ states) ** 2)
    error = np.abs(np.mean(context[:, 0], axis=0) - a @ states)
    assert (error < 5 * spread / np.sqrt(20_000)).all()
    (log_p,), (entropy,) = sown["reinforce"]["log_p"], sown["reinforce"]["entropy"]
    expected_entropy = -np.sum(a[:4] * np.log(a[:4]))
    np.testing.assert_allclose(entropy[0, 0], expected_entropy, rtol=1e-5)
    assert abs(-np.mean(log_p) - expected_entropy) < 0.02


def test_half_of_the_sentences_read_their_expectation():
    _, module, _, _ = build("dot", "hard")
    _, memory, mask, _ = draw(4, [3], [0])
    source = module.apply(
        {}, jnp.repeat(memory, 4000, axis=0), jnp.repeat(mask, 4000, axis=0), False,
        method="source", rngs={"sample": jax.random.key(0)},
    )  # fmt: skip
    assert 0.45 < float(source.expected.mean()) < 0.55


def test_split_keys_and_values_that_are_equal_are_plain_attention():
    query, memory, mask, steps = draw(5, [5, 2], [0, 1])
    plain, split = Global(DOT), Global(DOT, key_value=True)
    doubled = jnp.concatenate([memory, memory], axis=-1)
    ours = split.apply({}, query, doubled, mask, steps, method=attend)
    theirs = plain.apply({}, query, memory, mask, steps, method=attend)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", ["general", "concat"])
def test_scores_that_start_with_a_zero_half_ignore_that_half_of_the_keys(name):
    query, memory, mask, steps = draw(6, [5], [0])
    module = Global(SCORES[name](query_width=WIDTH, key_width=WIDTH, zero_half=True))
    params = module.init(jax.random.key(0), query, memory, mask, steps, method=attend)
    changed = memory.at[..., WIDTH // 2 :].set(7.0)
    _, before = module.apply(params, query, memory, mask, steps, method=attend)
    _, after = module.apply(params, query, changed, mask, steps, method=attend)
    np.testing.assert_allclose(before, after, atol=1e-6)


def test_location_gives_no_weight_to_positions_beyond_max_source():
    for align in ("global", "local_m"):
        _, module, apply, _ = build("location", align, D=4, max_source=3)
        query, memory, mask, steps = draw(8, [5], [2])
        params = module.init(jax.random.key(0), query, memory, mask, steps, method=attend)
        _, weights = apply(params["params"], query, memory, mask, steps)
        np.testing.assert_array_equal(weights[..., 3:], 0)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)


def test_an_empty_window_has_no_weights_and_no_context():
    module = LocalMonotonic(DOT, D=1)
    query, memory, mask, steps = draw(9, [2], [5])
    context, weights = module.apply({}, query, memory, mask, steps, method=attend)
    assert not context.any() and not weights.any()


def test_masked_softmax_of_a_masked_row_is_zero_and_has_finite_gradients():
    mask = jnp.array([[[True, False, True]], [[False, False, False]]])
    scores = jnp.array([[[1.0, jnp.inf, -2.0]], [[3.0, 1.0, 0.0]]])
    weights, gradient = jax.value_and_grad(
        lambda x: (masked_softmax(x, mask) ** 2).sum(), argnums=0
    )(scores)
    p = reference.softmax(np.array([1.0, -2.0]))
    np.testing.assert_allclose(weights, (p**2).sum(), rtol=1e-6)
    assert jnp.isfinite(gradient).all()
