import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from configs.base import base_config
from models.output import output_scores
from models.seq2seq import make_seq2seq
from tests import reference
from tests.models.test_cells import random_params

SOURCE = jnp.array([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]])
TARGET_IN = jnp.array([[1, 4, 5, 6], [1, 7, 0, 0]])


def tiny(
    cell="lstm", decoder="luong", align="global", score="general", feeding=None,
    bidirectional=False, bridge="copy", residual=False, reverse=False, key_value="none",
    clamp=True, positions=1,
):  # fmt: skip
    model = base_config().model
    model.decoder.type, model.bridge = decoder, bridge
    for stack in (model.encoder, model.decoder):
        stack.update({
            "cell": cell, "layers": 2, "features": 4, "embedding": 3, "residual": residual,
        })  # fmt: skip
    if bidirectional:
        model.encoder.update({"bidirectional": True, "features": 2})
    model.decoder.maxout = 5
    model.attention.update({
        "align": align, "score": score, "max_source": 8, "D": 1, "key_value": key_value,
        "clamp": clamp, "positions": positions,
        "input_feeding": decoder == "luong" if feeding is None else feeding,
    })  # fmt: skip
    return model, reverse


CASES = {
    "sutskever": tiny(decoder="plain", align="none", reverse=True),
    "plain-gru-bidirectional": tiny("gru", "plain", "none", bidirectional=True),
    "residual": tiny(decoder="plain", align="none", residual=True),
    "cho": tiny("gru", "cho", "none", bridge="dense"),
    "bahdanau": tiny("gru", "bahdanau", score="concat", bidirectional=True, bridge="backward"),
    "bahdanau-local_p": tiny("gru", "bahdanau", "local_p", "dot", bridge="dense"),
    "bahdanau-hard": tiny("lstm", "bahdanau", "hard", "general", positions=2),
    "luong-dot": tiny(score="dot"),
    "luong-general": tiny(),
    "luong-general-without-feeding": tiny(feeding=False),
    "luong-concat-bidirectional": tiny(score="concat", bidirectional=True),
    "luong-location-elman": tiny("elman", score="location", reverse=True),
    "luong-local_m": tiny(align="local_m"),
    "luong-local_m-without-feeding": tiny(
        "gru", align="local_m", score="concat", feeding=False, clamp=False
    ),
    "luong-local_p": tiny(align="local_p", residual=True),
    "luong-local_p-location": tiny(align="local_p", score="location", feeding=False),
    "luong-hard": tiny(align="hard", score="scaled_dot", positions=3),
    "luong-marginal": tiny(align="marginal", feeding=False),
    "mino-split": tiny("gru_reset_after", key_value="split", score="general"),
    "mino-zero": tiny(key_value="zero", score="concat", bidirectional=True),
}

# Only slow tests run these models, because other models contain all their components.
_ALIKE = (
    "residual", "plain-gru-bidirectional", "bahdanau-local_p", "luong-dot", "luong-local_m",
    "luong-concat-bidirectional", "luong-location-elman", "mino-split",
    "luong-local_m-without-feeding", "luong-general-without-feeding", "luong-local_p-location",
    "mino-zero",
)  # fmt: skip
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name in _ALIKE)) for name in CASES]


@functools.cache
def build(name):
    """Return a model, its random parameters, and its functions compiled once for all tests."""
    config, reverse = CASES[name]
    model = make_seq2seq(config, 10, 10, reverse)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN)

    def whole(params, source, target_in):
        variables = {"params": params}
        memory = model.apply(variables, source, source != 0, method="encode")
        state = model.apply(variables, memory, 4, method="start")
        features, attention = model.apply(
            variables, memory, target_in, attention=True, method="decode"
        )
        kernel = model.apply(variables, method="output_kernel")
        outputs = output_scores(features, kernel)
        real = (target_in != 0)[..., None]
        loss = jnp.sum(jnp.sin(outputs), where=real)
        if attention is not None:
            loss += jnp.sum(attention**2, where=real)
        return loss, (memory, state, outputs, attention)

    step = jax.jit(lambda m, s, t: model.apply({"params": params}, m, s, t, True, method="step"))
    return config, reverse, params, jax.jit(jax.grad(whole, has_aux=True)), step


@pytest.mark.parametrize("name", NAMES)
def test_decoding_steps_equal_teacher_forcing(name):
    _, _, params, whole, step = build(name)
    _, (memory, state, outputs, attention) = whole(params, SOURCE, TARGET_IN)
    for t in range(TARGET_IN.shape[1]):
        step_outputs, state, step_attention = step(memory, state, TARGET_IN[:, t])
        np.testing.assert_allclose(step_outputs, outputs[:, t], atol=2e-6)
        if attention is not None:
            np.testing.assert_allclose(step_attention, attention[:, t], atol=1e-6)


def padded(rng, lengths, width, first=()):
    """Draw a batch of random sentences that begin with the tokens `first`."""
    rows = [[*first, *rng.integers(3, 10, length - len(first))] for length in lengths]
    return np.array([row + [0] * (width - len(row)) for row in rows])


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    sources=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    targets=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
@example(seed=0, sources=(5, 3), targets=(4, 2))
@example(seed=1, sources=(1, 5), targets=(4, 4))
def test_outputs_and_gradients_equal_the_equations(name, seed, sources, targets):
    """Gradients are compared with finite differences of the equations in float64."""
    config, reverse, params, whole, _ = build(name)
    rng = np.random.default_rng(seed)
    source, target_in = padded(rng, sources, 5), padded(rng, targets, 4, first=[1])
    gradient, (_, _, outputs, attention) = whole(params, source, target_in)

    def equations(params):
        return [
            reference.translator(params, config, source[row, :s], target_in[row, :t], reverse)
            for row, (s, t) in enumerate(zip(sources, targets, strict=True))
        ]

    def loss(params):
        return sum(np.sin(rows).sum() + (a**2).sum() for rows, a in equations(params))

    exact = reference.as_float64(params)
    for row, (expected, weights) in enumerate(equations(exact)):
        t, s = len(expected), sources[row]
        np.testing.assert_allclose(outputs[row, :t], expected, atol=1e-5)
        if attention is not None:
            np.testing.assert_allclose(attention[row, :t, :s], weights, atol=1e-5)
            np.testing.assert_array_equal(attention[row, :, s:], 0)
    reference.check_gradient(loss, exact, gradient, rng)


def test_dense_bridge_connects_stacks_of_different_depth_and_cell():
    config, _ = tiny("gru", bidirectional=True, bridge="dense")
    config.encoder.layers, config.decoder.layers, config.decoder.cell = 1, 3, "lstm"
    model = make_seq2seq(config, 10, 10, reverse_source=False)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN)
    outputs = jax.jit(model.apply)({"params": params}, SOURCE, SOURCE != 0, TARGET_IN)
    expected, _ = reference.translator(
        reference.as_float64(params), config, SOURCE[0], TARGET_IN[0]
    )
    np.testing.assert_allclose(outputs[0], expected, atol=1e-5)


def test_input_feeding_with_zero_weights_equals_no_input_feeding():
    fed, _ = tiny()
    plain, _ = tiny(feeding=False)
    fed, plain = (make_seq2seq(config, 10, 10, False) for config in (fed, plain))
    params = random_params(fed.init, SOURCE, SOURCE != 0, TARGET_IN)
    kernel = params["decoder"]["stack"]["forward0"]["W"]
    zeroed = jax.tree.map(lambda x: x, params)
    zeroed["decoder"]["stack"]["forward0"]["W"] = kernel.at[3:].set(0)
    without = jax.tree.map(lambda x: x, params)
    without["decoder"]["stack"]["forward0"]["W"] = kernel[:3]
    inputs = (SOURCE, SOURCE != 0, TARGET_IN)
    ours = jax.jit(fed.apply)({"params": zeroed}, *inputs)
    theirs = jax.jit(plain.apply)({"params": without}, *inputs)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_bahdanau_initializers_are_those_of_the_paper():
    config, _ = CASES["bahdanau"]
    config = config.copy_and_resolve_references()
    config.init, config.init_scale = "bahdanau", 1.0
    model = make_seq2seq(config, 10, 10, False)
    params = jax.jit(model.init)(jax.random.key(0), SOURCE, SOURCE != 0, TARGET_IN)["params"]
    for block in np.split(params["decoder"]["stack"]["forward0"]["U"], 3, axis=1):
        np.testing.assert_allclose(block.T @ block, np.eye(4), atol=1e-5)
    score = params["decoder"]["attention"]["score"]
    assert not score["v_a"]["kernel"].any()
    assert 0 < np.abs(score["W_a_query"]["kernel"]).max() < 0.005
    assert 0.005 < np.abs(params["output"]["kernel"]).max() < 0.05


def test_bfloat16_model_is_close_to_float32():
    """In a bfloat16 model, parameters, the LSTM's cell state C and logits remain in float32."""
    config, _ = tiny()
    model = make_seq2seq(config, 10, 10, False)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN, scale=0.2)
    config.dtype = "bfloat16"
    fast = make_seq2seq(config, 10, 10, False)
    shapes = jax.eval_shape(fast.init, jax.random.key(0), SOURCE, SOURCE != 0, TARGET_IN)
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {jnp.dtype("float32")}
    inputs = ({"params": params}, SOURCE, SOURCE != 0)
    exact, rough = (jax.jit(m.apply)(*inputs, TARGET_IN) for m in (model, fast))
    assert rough.dtype == jnp.float32
    assert 0 < float(jnp.abs(exact - rough).max()) < 0.02
    rounded = rough.astype(jnp.bfloat16).astype(jnp.float32)
    assert (rough != rounded).any()  # `rough` has more precision than bfloat16
    memory = jax.eval_shape(lambda *a: fast.apply(*a, method="encode"), *inputs)
    c, h = memory.carries[0]
    assert (c.dtype, h.dtype) == (jnp.float32, jnp.bfloat16)


def test_dropout_is_applied_in_every_layer():
    config, _ = tiny(decoder="plain", align="none")
    config.dropout = 0.5
    model = make_seq2seq(config, 10, 10, False)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN)

    def noisy(module, key):
        return module.encode(SOURCE, SOURCE != 0, False).carries

    first, second = (
        model.apply({"params": params}, None, method=noisy, rngs={"dropout": jax.random.key(i)})
        for i in (0, 1)
    )
    for layer in range(2):
        assert (first[layer][-1] != second[layer][-1]).any()


@pytest.mark.parametrize("name", ["bahdanau-hard", "luong-hard"])
def test_the_contexts_of_hard_attention_share_dropout_masks(name):
    """If the source has one token, the sampled and the expected context are equal."""
    config, params = CASES[name][0].copy_and_resolve_references(), build(name)[2]
    config.dropout = 0.5
    model = make_seq2seq(config, 10, 10, False)

    def features(module, source):
        features, _ = module.decode(module.encode(source, source != 0, False), TARGET_IN, False)
        return features.vectors

    keys = {"dropout": jax.random.key(0), "sample": jax.random.key(1)}
    run = jax.jit(
        lambda source: model.apply({"params": params}, source, method=features, rngs=keys)
    )
    sampled, expected = jnp.moveaxis(run(jnp.array([[2, 0, 0], [7, 8, 2]])), 2, 0)
    np.testing.assert_allclose(sampled[0], expected[0], atol=1e-6)
    assert (expected[0] == 0).any() and jnp.abs(sampled[1] - expected[1]).max() > 1e-3
