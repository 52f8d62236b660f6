import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.base import base_config
from models.seq2seq import make_seq2seq
from tests import reference
from tests.models.test_cells import random_params

SOURCE = jnp.array([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]])
TARGET_IN = jnp.array([[1, 4, 5, 6], [1, 7, 0, 0]])
LENGTHS = [(5, 4), (3, 2)]


def tiny(cell="lstm", align="global", score="general", feeding=True, bidirectional=False):
    model = base_config().model
    for stack in (model.encoder, model.decoder):
        stack.update({"cell": cell, "layers": 2, "features": 4, "embedding": 3})
    if bidirectional:
        model.encoder.update({"bidirectional": True, "features": 2})
    model.attention.update({
        "align": align, "score": score, "input_feeding": feeding, "max_source": 8,
    })  # fmt: skip
    return model


CASES = {
    "plain": tiny(align="none", feeding=False),
    "plain-gru-bidirectional": tiny("gru", "none", feeding=False, bidirectional=True),
    "dot": tiny(score="dot"),
    "general": tiny(score="general"),
    "general-without-feeding": tiny(feeding=False),
    "concat-bidirectional": tiny(score="concat", bidirectional=True),
    "concat-without-feeding": tiny("gru", score="concat", feeding=False),
    "location-elman": tiny("elman", score="location"),
}


@pytest.fixture(params=CASES)
def case(request):
    config = CASES[request.param]
    model = make_seq2seq(config, 10, 10, reverse_source=False)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN)
    return config, model, params


def test_translator_equals_its_equations_and_its_own_steps(case):
    config, model, params = case

    @jax.jit
    def whole(params):
        variables = {"params": params}
        memory = model.apply(variables, SOURCE, SOURCE != 0, method="encode")
        state = model.apply(variables, memory, method="start")
        return memory, state, model.apply(variables, memory, TARGET_IN, method="decode")

    memory, state, (logits, attention) = whole(params)
    step = jax.jit(lambda m, s, t: model.apply({"params": params}, m, s, t, method="step"))
    for t in range(TARGET_IN.shape[1]):
        step_logits, state, step_attention = step(memory, state, TARGET_IN[:, t])
        np.testing.assert_allclose(step_logits, logits[:, t], atol=2e-6)
        if attention is not None:
            np.testing.assert_allclose(step_attention, attention[:, t], atol=1e-6)
    for row, (s, t) in enumerate(LENGTHS):
        expected, weights = reference.luong(
            reference.as_float64(params), config, SOURCE[row, :s], TARGET_IN[row, :t]
        )
        np.testing.assert_allclose(logits[row, :t], expected, atol=1e-5)
        if attention is not None:
            np.testing.assert_allclose(attention[row, :t, :s], weights, atol=1e-5)
            np.testing.assert_array_equal(attention[row, :, s:], 0)


def test_dense_bridge_joins_unequal_stacks():
    config = tiny("gru", bidirectional=True)
    config.bridge = "dense"
    config.encoder.layers, config.decoder.layers, config.decoder.cell = 1, 3, "lstm"
    model = make_seq2seq(config, 10, 10, reverse_source=False)
    shapes = jax.eval_shape(model.init, jax.random.key(0), SOURCE, SOURCE != 0, TARGET_IN)
    bridge = shapes["params"]["bridge"]
    assert {name: layer["kernel"].shape for name, layer in bridge.items()} == {
        "layer0": (4, 8), "layer1": (4, 8), "layer2": (4, 8),
    }  # fmt: skip


def test_reversed_source_hands_over_the_state_of_the_first_word():
    model = make_seq2seq(tiny(align="none", feeding=False), 10, 10, reverse_source=True)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN)
    memory = model.apply({"params": params}, SOURCE, SOURCE != 0, method="encode")
    np.testing.assert_allclose(memory.carries[-1][-1], memory.states[:, 0], atol=1e-6)


def test_bfloat16_computes_close_to_float32_and_keeps_float32_parameters():
    config = tiny()
    model = make_seq2seq(config, 10, 10, False)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN, scale=0.2)
    config.dtype = "bfloat16"
    fast = make_seq2seq(config, 10, 10, False)
    shapes = jax.eval_shape(fast.init, jax.random.key(0), SOURCE, SOURCE != 0, TARGET_IN)
    assert {leaf.dtype for leaf in jax.tree.leaves(shapes)} == {jnp.dtype("float32")}
    exact, rough = (
        m.apply({"params": params}, SOURCE, SOURCE != 0, TARGET_IN) for m in (model, fast)
    )
    assert rough.dtype == jnp.float32
    assert 0 < float(jnp.abs(exact - rough).max()) < 0.02
