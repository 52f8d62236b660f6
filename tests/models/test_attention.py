import contextlib
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.base import base_config
from configs.schema.seq2seq import EQUAL_WIDTHS, MARGINALIZING
from models.attention import (
    ALIGNMENTS,
    Global,
    LocalMonotonic,
    make_alignment,
    masked_softmax,
)
from models.initializers import XAVIER
from models.output import Features, output_scores
from models.scores import SCORES
from tests import reference
from tests.models.test_cells import random_params

WIDTH = 4
DOT = SCORES["dot"](query_width=WIDTH, key_width=WIDTH)
# tests/models/test_seq2seq.py tests alignments with many contexts per target position.
ONE_CONTEXT = [name for name in ALIGNMENTS if name not in MARGINALIZING]
PAIRS = list(itertools.product(SCORES, ONE_CONTEXT))


def attend(module, query, memory, mask, target_positions):
    attended = module(query, module.source(memory, mask), target_positions)
    return attended.contexts, attended.weights


@functools.cache
def build(score, align, D=2, renormalize=False, clamp=True, max_source=9):
    model = base_config().model
    model.encoder.features = model.decoder.features = WIDTH
    model.attention.update({
        "score": score, "align": align, "D": D, "renormalize": renormalize, "clamp": clamp,
        "max_source": max_source, "positions": 1,
    })  # fmt: skip
    module = make_alignment(model, XAVIER, jnp.float32)

    def apply(params, *inputs):
        return module.apply({"params": params}, *inputs, method=attend)

    def loss(tree, mask, target_positions):
        context, weights = apply(*tree, mask, target_positions)
        return jnp.sum(jnp.sin(context)) + jnp.sum(weights**2), (context, weights)

    return model.attention, module, jax.jit(apply), jax.jit(jax.grad(loss, has_aux=True))


def draw(seed, lengths, target_positions):
    """Draw queries and padded encoder states; return them with the mask and target positions."""
    rng = np.random.default_rng(seed)
    longest = max(lengths) + 2
    query = rng.normal(0, 2, (len(lengths), len(target_positions), WIDTH))
    memory = rng.normal(0, 1, (len(lengths), longest, WIDTH))
    mask = np.arange(longest) < np.array(lengths)[:, None]
    positions = np.tile(target_positions, (len(lengths), 1))
    return (
        jnp.asarray(query, jnp.float32), jnp.asarray(memory, jnp.float32), jnp.asarray(mask),
        jnp.asarray(positions),
    )  # fmt: skip


def check_against_equations(score, align, D, seed, lengths, target_positions, **options):
    """Check that contexts, weights and gradients of a loss equal those of the NumPy reference."""
    config, module, _, gradient = build(score, align, D, **options)
    query, memory, mask, positions = draw(seed, lengths, target_positions)

    def init(key, *arguments):
        return {"params": {}, **module.init(key, *arguments, method=attend)}

    params = random_params(init, query, memory, mask, positions)
    gradients, (context, weights) = gradient((params, query, memory), mask, positions)

    def equations(tree):
        w, query, memory = tree
        return [
            [
                reference.attend(config, w, query[row, i], memory[row, :length], t)
                for i, t in enumerate(target_positions)
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
                return  # hard attention may select either of two almost equal weights
            np.testing.assert_allclose(context[row, i], c, atol=2e-5)
    reference.check_gradient(loss, exact, gradients, np.random.default_rng(seed))


@pytest.mark.parametrize(("score", "align"), PAIRS, ids=str)
def test_every_score_and_alignment_equal_their_equations(score, align):
    check_against_equations(score, align, 2, 0, lengths=[7, 1, 4], target_positions=[0, 3, 6, 8])


@pytest.mark.parametrize("name", SCORES)
def test_scores_without_a_matrix_need_equal_widths(name):
    model = base_config().model
    model.decoder.features = 2 * model.encoder.features
    model.attention.update({"score": name, "align": "global"})
    module = make_alignment(model, XAVIER, jnp.float32)
    query, memory = (
        jnp.zeros((1, 1, model.decoder.features)),
        jnp.zeros((1, 3, model.encoder.features)),
    )
    inputs = query, memory, jnp.ones((1, 3), bool), jnp.zeros((1, 1), int)
    init = functools.partial(module.init, method=attend)
    refused = (
        pytest.raises((ValueError, TypeError)) if name in EQUAL_WIDTHS else contextlib.nullcontext()
    )
    with refused:
        jax.eval_shape(init, jax.random.key(0), *inputs)


# Draw few different array shapes, because JAX compiles the model again for each new shape.
@settings(max_examples=25, deadline=None)
@given(
    align_and_option=st.sampled_from([("local_m", "clamp"), ("local_p", "renormalize")]),
    enabled=st.booleans(),
    D=st.sampled_from([1, 3, 9]),
    seed=st.integers(0, 2**16),
    lengths=st.tuples(st.just(6), st.integers(1, 6), st.sampled_from([1, 2, 6])),
    start=st.integers(0, 9),
)
def test_windows_of_any_width_and_position_equal_their_equations(
    align_and_option, enabled, D, seed, lengths, start
):
    """The source length S may be 1 or less than D; windows may be empty or truncated by an end."""
    align, option = align_and_option
    positions = [start, start + 1, start + 5]
    check_against_equations(
        "general", align, D, seed, list(lengths), positions, **{option: enabled}
    )


@pytest.mark.parametrize("bias", [-60.0, 60.0])
def test_predicted_positions_reach_both_ends(bias):
    """The bias makes the window center p_t of local-p close to 0 or to the source length."""
    config, module, apply, _ = build("dot", "local_p")
    query, memory, mask, positions = draw(1, [5, 3], [0])
    params = random_params(
        lambda key, *a: module.init(key, *a, method=attend), query, memory, mask, positions
    )
    params["v_p"]["kernel"] = jnp.sign(params["v_p"]["kernel"]) * bias
    params["W_p"]["kernel"] = (
        jnp.sign(query[0, 0])[:, None] * jnp.sign(params["v_p"]["kernel"]).T * jnp.sign(bias)
    )
    _, weights = apply(params, query, memory, mask, positions)
    w = reference.as_float64(params)
    for row, length in enumerate((5, 3)):
        h, states = map(reference.as_float64, (query[row, 0], memory[row, :length]))
        expected = reference.align(config, w, h, states, 0)
        np.testing.assert_allclose(weights[row, 0, :length], expected, atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_a_window_as_wide_as_the_source_equals_global_attention(score):
    query, memory, mask, positions = draw(2, [6, 3], [0, 2, 5])
    _, module, local, _ = build(score, "local_m", D=8)
    _, _, over_all, _ = build(score, "global")
    params = random_params(
        lambda key, *a: {"params": {}, **module.init(key, *a, method=attend)},
        query, memory, mask, positions,
    )  # fmt: skip
    for ours, theirs in zip(
        local(params, query, memory, mask, positions),
        over_all(params, query, memory, mask, positions),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_the_mean_of_hard_attention_samples_is_the_soft_context():
    _, module, _, _ = build("dot", "hard")
    query, memory, mask, positions = draw(3, [4], [0])
    repeated = [jnp.repeat(x, 20_000, axis=0) for x in (query, memory, mask, positions)]

    def sample(module, query, memory, mask, positions):
        attended = module(query, module.source(memory, mask), positions, False)
        assert attended.mixture is None
        return attended.contexts, attended.weights

    rngs = {"sample": jax.random.key(0)}
    (contexts, alpha), sown = module.apply(
        {}, *repeated, method=sample, rngs=rngs, mutable=["auxiliary"]
    )
    states, a = map(reference.as_float64, (memory[0], alpha[0, 0]))
    spread = np.sqrt(a @ states**2 - (a @ states) ** 2)
    error = np.abs(np.mean(contexts[:, 0, 0], axis=0) - a @ states)
    assert (error < 5 * spread / np.sqrt(20_000)).all()
    distances = np.abs(np.asarray(contexts)[:20, 0, 0, None] - states).max(axis=-1)
    assert (distances.min(axis=-1) < 1e-6).all()  # every sampled context is one of the states
    np.testing.assert_allclose(contexts[0, 0, 1], a @ states, rtol=1e-5)
    (log_p,), (entropy,) = sown["auxiliary"]["sampled_log_p"], sown["auxiliary"]["entropy"]
    expected_entropy = -np.sum(a[:4] * np.log(a[:4]))
    np.testing.assert_allclose(entropy[0, 0], expected_entropy, rtol=1e-5)
    assert abs(-np.mean(log_p) - expected_entropy) < 0.02


def test_the_mixture_of_hard_attention_does_not_depend_on_padding():
    """It consists of the three positions with the largest weights, or of all positions."""
    module = build("dot", "hard")[1].clone(positions=3)
    query, memory, mask, positions = draw(11, [1, 3, 4], [0, 1])
    kernel = jax.random.normal(jax.random.key(0), (WIDTH, 5))

    def apply(module, query, memory, mask, target_positions):
        return module(query, module.source(memory, mask), target_positions)

    @jax.jit
    def scores(*inputs):
        found = module.apply({}, *inputs, method=apply)
        p = output_scores(Features(found.contexts, found.mixture), kernel)
        return found.contexts, found.weights, jax.nn.log_softmax(p)

    for row, length in enumerate((1, 3, 4)):
        p = np.asarray(jax.nn.softmax(memory[row, :length] @ kernel))
        for width in (length, 6):
            i = slice(row, row + 1)
            one = (query[i], memory[i, :width], mask[i, :width], positions[i])
            contexts, alpha, log_p = map(np.asarray, scores(*one))
            for t in range(2):
                chosen = np.argsort(-alpha[0, t, :length])[:3]
                mixture = alpha[0, t, chosen] @ p[chosen] / alpha[0, t, chosen].sum()
                np.testing.assert_allclose(log_p[0, t], np.log(mixture), rtol=1e-4)
                first = contexts.reshape(2, -1, WIDTH)[t, 0]
                np.testing.assert_allclose(first, memory[row, chosen[0]], rtol=1e-6)


def test_equal_keys_and_values_after_a_split_equal_plain_attention():
    query, memory, mask, positions = draw(5, [5, 2], [0, 1])
    plain, split = Global(DOT), Global(DOT, key_value=True)
    doubled = jnp.concatenate([memory, memory], axis=-1)
    ours = split.apply({}, query, doubled, mask, positions, method=attend)
    theirs = plain.apply({}, query, memory, mask, positions, method=attend)
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", ["general", "concat"])
def test_zero_half_initially_ignores_the_second_half_of_encoder_states(name):
    query, memory, mask, positions = draw(6, [5], [0])
    module = Global(SCORES[name](query_width=WIDTH, key_width=WIDTH, zero_half=True))
    params = module.init(jax.random.key(0), query, memory, mask, positions, method=attend)
    changed = memory.at[..., WIDTH // 2 :].set(7.0)
    _, before = module.apply(params, query, memory, mask, positions, method=attend)
    _, after = module.apply(params, query, changed, mask, positions, method=attend)
    np.testing.assert_allclose(before, after, atol=1e-6)


def test_location_score_gives_no_weight_beyond_max_source():
    for align in ("global", "local_m"):
        _, module, apply, _ = build("location", align, D=4, max_source=3)
        query, memory, mask, positions = draw(8, [5], [2])
        params = module.init(jax.random.key(0), query, memory, mask, positions, method=attend)
        _, weights = apply(params["params"], query, memory, mask, positions)
        np.testing.assert_array_equal(weights[..., 3:], 0)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("clamp", "long", "short"),
    [
        (True, [[0, 0.5, 0.5]] * 3, [[1, 0, 0]] * 3),
        (False, [[0, 0.5, 0.5], [0, 0, 1], [0, 0, 0]], [[0, 0, 0]] * 3),
    ],
)
def test_local_m_windows_past_the_last_source_position(clamp, long, short):
    """Sources have 3 tokens and 1 token; a query of zeros gives equal weights in each window."""
    _, memory, mask, positions = draw(10, [3, 1], [2, 3, 4])
    query = jnp.zeros((2, 3, WIDTH))
    module = LocalMonotonic(DOT, D=1, clamp=clamp)
    _, weights = module.apply({}, query, memory, mask, positions, method=attend)
    np.testing.assert_allclose(weights[..., :3], [long, short])
    assert not weights[..., 3:].any()


def test_an_empty_window_has_zero_weights_and_a_zero_context():
    module = LocalMonotonic(DOT, D=1, clamp=False)
    query, memory, mask, positions = draw(9, [2], [5])
    context, weights = module.apply({}, query, memory, mask, positions, method=attend)
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
