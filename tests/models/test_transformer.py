import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from configs.base import base_config
from configs.vaswani2017 import get_config
from models import multihead
from models.dropout import Dropout
from models.layers import unroll_layers
from models.output import output_scores
from models.transformer import make_transformer, sinusoids
from tasks.translation import Translation
from tests import reference, reference_transformer
from tests.models.test_cells import random_params
from tests.models.test_seq2seq import padded
from training.devices import put, replicated
from training.state import create_state
from training.step import RunArguments, make_train_step, zero_sums

SOURCE = jnp.array([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0]])
TARGET_IN = jnp.array([[1, 4, 5, 6], [1, 7, 8, 9]])


def tiny(**changes):
    model = base_config("transformer").model
    model.update({"layers": 2, "features": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0})
    model.update(changes)
    return model


CASES = {
    "post": tiny(),
    "pre": tiny(norm="pre"),
    "untied": tiny(share_embeddings=False, tie_output=False, attention_head=1),
    "learned-narrow-keys": tiny(positions="learned", max_positions=9, key_features=2),
    "scan": tiny(scan=True),
    "scan-remat-pre": tiny(scan=True, remat=True, norm="pre"),
    "remat": tiny(remat=True, attention_layer=0),
}

# Only slow tests run these models, because other models contain all their components.
_ALIKE = ("pre", "scan", "remat", "untied", "learned-narrow-keys")
NAMES = [pytest.param(n, marks=[pytest.mark.slow] * (n in _ALIKE)) for n in CASES]


@functools.cache
def build(name):
    config = CASES[name]
    model = make_transformer(config, 10, 10, False)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN)
    # Decoding needs unrolled layers.
    plain = config.copy_and_resolve_references()
    plain.scan = False
    decoder = make_transformer(plain, 10, 10, False)

    def decode(params, *arguments, method):
        params = unroll_layers(params) if config.scan else params
        return decoder.apply({"params": params}, *arguments, method=method)

    def whole(params, source, target_in):
        variables = {"params": params}
        memory = model.apply(variables, source, source != 0, method="encode")
        features, attention = model.apply(
            variables, memory, target_in, attention=True, method="decode"
        )
        kernel = model.apply(variables, method="output_kernel")
        outputs = output_scores(features, kernel)
        real = (target_in != 0)[..., None]
        loss = jnp.sum(jnp.sin(outputs), where=real) + jnp.sum(attention**2, where=real)
        memory = decode(params, source, source != 0, method="encode")
        state = decode(params, memory, 4, method="start")
        return loss, (memory, state, outputs, attention)

    def step(memory, state, tokens):
        return decode(params, memory, state, tokens, True, method="step")

    return config, model, params, jax.jit(jax.grad(whole, has_aux=True)), jax.jit(step)


def reported(config, weights):
    """Return the weights of attention_layer and attention_head, from weights [n, h, t, s]."""
    heads, head = weights[config.attention_layer], config.attention_head
    return heads.mean(axis=0) if head < 0 else heads[head]


@pytest.mark.parametrize("name", NAMES)
def test_decoding_steps_with_a_kv_cache_equal_teacher_forcing(name):
    _, _, params, whole, step = build(name)
    _, (memory, state, outputs, attention) = whole(params, SOURCE, TARGET_IN)
    for t in range(TARGET_IN.shape[1]):
        step_outputs, state, step_attention = step(memory, state, TARGET_IN[:, t])
        np.testing.assert_allclose(step_outputs, outputs[:, t], atol=1e-5)
        np.testing.assert_allclose(step_attention, attention[:, t], atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    sources=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    targets=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
@example(seed=0, sources=(5, 1), targets=(4, 1))
def test_outputs_and_gradients_equal_the_equations(name, seed, sources, targets):
    config, _, params, whole, _ = build(name)
    rng = np.random.default_rng(seed)
    source, target_in = padded(rng, sources, 5), padded(rng, targets, 4, first=[1])
    gradient, (_, _, outputs, attention) = whole(params, source, target_in)

    def equations(params):
        return [
            reference_transformer.transformer(params, config, source[row, :s], target_in[row, :t])
            for row, (s, t) in enumerate(zip(sources, targets, strict=True))
        ]

    def loss(params):
        return sum(
            np.sin(rows).sum() + (reported(config, weights) ** 2).sum()
            for rows, weights in equations(params)
        )

    exact = reference.as_float64(params)
    for row, (expected, weights) in enumerate(equations(exact)):
        t, s = len(expected), sources[row]
        np.testing.assert_allclose(outputs[row, :t], expected, atol=2e-5)
        shown = reported(config, weights)
        np.testing.assert_allclose(attention[row, :t, :s], shown, atol=1e-5)
        np.testing.assert_array_equal(attention[row, :, s:], 0)
    reference.check_gradient(loss, exact, gradient, rng)


def test_features_do_not_depend_on_later_tokens():
    """The derivative of decoder features at position t by embeddings of later tokens is zero."""
    _, model, params, _, _ = build("untied")

    def features(table, t):
        changed = {**params, "target_embed": {"embedding": table}}
        memory = model.apply({"params": changed}, SOURCE[:1], SOURCE[:1] != 0, method="encode")
        return model.apply({"params": changed}, memory, tokens, method="decode")[0].vectors[0, t]

    # Use distinct tokens, so that each position has its own embedding row.
    tokens = jnp.array([[1, 4, 5, 6]])
    jacobian = jax.jit(jax.jacobian(features))
    for t in range(4):
        by_token = jacobian(params["target_embed"]["embedding"], t)[:, tokens[0]]
        largest = jnp.abs(by_token).max(axis=(0, 2))
        assert (largest[: t + 1] > 0).all() and (largest[t + 1 :] == 0).all()


def forward(module):
    """Return the features of the decoder."""
    memory = module.encode(SOURCE, SOURCE != 0)
    return module.decode(memory, TARGET_IN)[0].vectors


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scan", "post"])
def test_sowing_the_attention_weights_of_all_layers_does_not_change_the_output(name):
    _, model, params, _, _ = build(name)
    with jax.disable_jit():  # compiled programs may round differently, so compare without jit
        features, _ = model.apply({"params": params}, method=forward, mutable=["attention"])
        alone = model.apply({"params": params}, method=forward)
    np.testing.assert_array_equal(features, alone)


@pytest.mark.parametrize("name", ["scan-remat-pre", "post"])
def test_sown_attention_weights_are_those_of_all_layers(name):
    config, model, params, _, _ = build(name)
    apply = functools.partial(model.apply, method=forward, mutable=["attention"])
    _, sown = jax.jit(apply)({"params": params})
    _, expected = reference_transformer.transformer(
        reference.as_float64(params), config, SOURCE[0], TARGET_IN[0]
    )
    kinds = {"encoder": ["attention"], "decoder": ["self_attention", "source_attention"]}
    for side, names in kinds.items():
        for kind in names:
            layers = sown["attention"][side]
            if config.scan:
                weights = layers["stacked"][kind]["weights"][0]
            else:
                weights = jnp.stack([layers[f"unrolled_{i}"][kind]["weights"][0] for i in (0, 1)])
            assert weights.shape[:3] == (2, 2, 2)  # 2 layers, 2 sentences, 2 heads
            np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
            if kind == "source_attention":
                np.testing.assert_allclose(weights[:, 0], expected, atol=1e-5)


def test_sinusoids():
    expected = np.array([reference_transformer.sinusoid(p, 6) for p in range(5)])
    np.testing.assert_allclose(sinusoids(jnp.arange(5), 6), expected, atol=1e-6)


COUNTS = {"none": 63_045_632, "big": 214_171_648}


@pytest.mark.parametrize("variant", COUNTS)
def test_parameter_counts_are_those_of_the_paper(variant):
    """The expected counts are computed by hand for the paper's vocabulary of 37k subwords.

    No single vocabulary size gives both rounded counts of the paper, 65 M and 213 M: the base model
    would need 40.8k subwords, the big model 35.8k.
    """
    model = get_config(f"data=wmt14_en_de,size=paper,variant={variant}").model
    shapes = jax.eval_shape(
        make_transformer(model, 37_000, 37_000, False).init,
        jax.random.key(0), SOURCE, SOURCE != 0, TARGET_IN,
    )  # fmt: skip
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes))
    d, inner, layers = {"none": (512, 2048, 6), "big": (1024, 4096, 6)}[variant]
    norm, feed_forward, attention = 2 * d, 2 * d * inner + inner + d, 4 * d * d
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    assert count == 37_000 * d + layers * (encoder + decoder) == COUNTS[variant]


@pytest.mark.slow  # as tests/test_programs.py trains a Transformer, too
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_pre_norm_and_post_norm_models_train(transformer_task, mesh, norm):
    config = transformer_task.config.copy_and_resolve_references()
    config.model.norm = norm
    task = Translation(config)
    optimizer, schedule = optax.adam(1.0), optax.constant_schedule(1.0)
    run = RunArguments(jax.random.key(0), jnp.float32(0.01))
    params = jax.jit(task.init)(jax.random.key(0))
    state = jax.device_put(create_state(params, optimizer, ema=False), replicated(mesh))
    step = make_train_step(task.loss, optimizer, schedule, config, mesh, state)
    batch = put(task.train_batches()[0], mesh)
    sums, totals = zero_sums(task.loss, state, batch, mesh), [0.0]
    for _ in range(40):
        state, sums, _ = step(state, sums, batch, run)
        totals.append(float(sums["loss"]))
    losses = np.diff(totals)
    assert losses[-1] < 0.6 * losses[0]


def test_dropout_is_applied_where_the_paper_applies_it():
    """Dropout follows embeddings, sublayers and, with attention_dropout, attention weights."""
    model = make_transformer(tiny(dropout=0.5, attention_dropout=0.1), 10, 10, False)
    params = build("post")[2]

    def features(module, key):
        memory = module.encode(SOURCE, SOURCE != 0, deterministic=False)
        features, _ = module.decode(memory, TARGET_IN, deterministic=False)
        return memory.source[0][0], features.vectors

    def run(seed):
        rngs = {"dropout": jax.random.key(seed)}
        return model.apply({"params": params}, None, method=features, rngs=rngs)

    jitted = jax.jit(run)
    first, again, other = jitted(0), jitted(0), jitted(1)
    for part in range(2):  # part 0: encoder features; part 1: decoder features
        np.testing.assert_array_equal(first[part], again[part])
        assert (first[part] != other[part]).any()
    dropouts = 0

    def count(next_method, args, kwargs, context):
        nonlocal dropouts
        dropouts += isinstance(context.module, Dropout) and context.method_name == "__call__"
        return next_method(*args, **kwargs)

    with nn.intercept_methods(count):
        jax.eval_shape(lambda: run(0))  # trace without the jit cache, so that `count` is called
    embeddings, encoder, decoder, attention_weights = 2, 2 * 2, 2 * 3, 2 * 1 + 2 * 2
    assert dropouts == embeddings + encoder + decoder + attention_weights


def test_attention_dropout_changes_outputs_but_not_their_mean_nor_the_returned_weights():
    shape = make_transformer(tiny(attention_dropout=0.5), 10, 10, False).shape
    attention = multihead.MultiHeadAttention(shape)
    x = jax.random.normal(jax.random.key(0), (2, 4, 8))
    lengths = jnp.array([4, 2])

    def call(module, x, deterministic):
        keys_values = module.keys_values(x)
        return module(x, keys_values, lengths, weights=True, deterministic=deterministic)

    params = attention.init(jax.random.key(1), x, True, method=call)

    @jax.jit
    def dropped(key):
        return attention.apply(params, x, False, method=call, rngs={"dropout": key})

    exact, weights = attention.apply(params, x, True, method=call)
    outputs, returned = jax.vmap(dropped)(jax.random.split(jax.random.key(2), 4000))
    assert float(outputs.std(axis=0).min()) > 0
    np.testing.assert_allclose(outputs.mean(axis=0), exact, atol=0.05)
    np.testing.assert_allclose(returned, jnp.broadcast_to(weights, returned.shape), atol=1e-6)


def test_bfloat16_transformer_is_close_to_float32():
    params = jax.tree.map(lambda x: x * 0.4, build("post")[2])
    exact, rough = (
        jax.jit(make_transformer(tiny(dtype=dtype), 10, 10, False).apply)(
            {"params": params}, SOURCE, SOURCE != 0, TARGET_IN
        )
        for dtype in ("float32", "bfloat16")
    )
    assert rough.dtype == jnp.float32
    assert 0 < float(jnp.abs(exact - rough).max()) < 0.1


def test_outputs_beyond_the_learned_positions_are_finite():
    model = make_transformer(tiny(positions="learned", max_positions=3), 10, 10, False)
    params = random_params(model.init, SOURCE, SOURCE != 0, TARGET_IN)
    outputs = jax.jit(model.apply)({"params": params}, SOURCE, SOURCE != 0, TARGET_IN)
    assert jnp.isfinite(outputs).all()


def test_padding_rows_attend_to_one_position(monkeypatch):
    """A length of at least 1 is required, as fused attention over zero positions may return NaN."""
    lengths = []

    def spy(*inputs, key_value_seq_lengths, **settings):
        lengths.append(key_value_seq_lengths)
        return inputs[2][:, :1]

    monkeypatch.setattr(jax.nn, "dot_product_attention", spy)
    ones = jnp.ones((2, 1, 2, 4))
    multihead.attend(ones, ones, ones, jnp.array([0, 3]), causal=False)
    np.testing.assert_array_equal(lengths[0], [1, 3])


@pytest.mark.parametrize("lengths", [None, jnp.array([67, 3])])
@pytest.mark.parametrize(("t", "causal"), [(65, False), (67, True)])
def test_odd_numbers_of_positions_are_padded_for_cudnn(monkeypatch, lengths, t, causal):
    """The padding changes neither the context nor the gradients."""
    made = np.random.default_rng(0).normal(size=(3, 2, 67, 2, 8)).astype(np.float32)
    query, keys, values = jnp.array(made[0, :, :t]), jnp.array(made[1]), jnp.array(made[2])
    shapes = []

    def without_cudnn(*inputs, implementation, **settings):
        shapes.extend(x.shape[1] for x in inputs)
        return attention(*inputs, implementation="xla", **settings)

    def context(*inputs):
        return multihead.attend(*inputs, lengths, causal)

    def gradients():
        weights = jnp.arange(t, dtype=jnp.float32)[None, :, None, None]
        return jax.grad(lambda *inputs: (weights * context(*inputs)).sum(), (0, 1, 2))

    inputs = query, keys, values
    expected = context(*inputs), gradients()(*inputs)
    attention = jax.nn.dot_product_attention
    monkeypatch.setattr(jax.nn, "dot_product_attention", without_cudnn)
    monkeypatch.setattr(multihead, "_implementation", lambda query, keys: "cudnn")
    found = context(*inputs), gradients()(*inputs)
    assert not any(length % 2 for length in shapes)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4), found, expected)


def test_flash_attention_is_used_for_long_bfloat16_sequences_on_nvidia_gpus(monkeypatch):
    long, short = jnp.zeros((1, 64, 2, 32), jnp.bfloat16), jnp.zeros((1, 63, 2, 32), jnp.bfloat16)
    monkeypatch.setattr(multihead, "_has_flash", lambda: True)
    assert multihead._implementation(long, long) == "cudnn"
    assert multihead._implementation(short, long) == "xla"
    assert multihead._implementation(long.astype(jnp.float32), long) == "xla"
    monkeypatch.undo()
    assert multihead._implementation(long, long) == "xla"  # this CPU has no cuDNN
