"""Compare taggers, classifiers and readers with their equations, on padded batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.base import base_config
from models.classifiers import make_han, make_sentence
from models.readers import make_reader
from models.taggers import make_tagger
from tests import reference
from tests.reference import as_float64, check_gradient

SMALL = {"features": 3, "embedding": 4, "dropout": 0.0}
LENGTHS = (5, 1, 3)


def settings(model, **changes):
    config = base_config(model).model
    config.update({name: value for name, value in SMALL.items() if name in config} | changes)
    return config


def random_params(model, *inputs):
    """Draw all parameters at random, because biases of zero would hide errors."""
    shapes = jax.eval_shape(model.init, jax.random.key(0), *inputs)["params"]
    leaves, structure = jax.tree.flatten(shapes)
    rng = np.random.default_rng(1)
    drawn = [jnp.array(rng.normal(size=leaf.shape, scale=0.6), jnp.float32) for leaf in leaves]
    return jax.tree.unflatten(structure, drawn)


def random_words(rng, *shape):
    return rng.integers(1, 9, shape)


NETWORKS = {
    "mlp": {"network": "mlp", "window": 2, "layers": 2},
    "tdnn": {"network": "tdnn", "window": 1, "layers": 3},
    "forward": {"network": "forward", "forward_delay": 2},
    # The delay of 7 is longer than all test sequences, which the model must support.
    "backward": {"network": "backward", "backward_delay": 7, "layers": 2},
    "merged": {"network": "merged", "forward_delay": 3, "backward_delay": 1},
    "brnn": {"network": "brnn", "layers": 2},
}
NETWORKS_AND_CELLS = [
    (network, cell)
    for network in NETWORKS
    for cell in (("elman",) if network in ("mlp", "tdnn") else ("elman", "lstm", "gru"))
]


# All recurrent networks use the same cells, so the fast tests run the GRU in the BRNN only.
_TAGGERS = [
    pytest.param(network, cell, marks=[pytest.mark.slow] * (cell == "gru" and network != "brnn"))
    for network, cell in NETWORKS_AND_CELLS
]


@pytest.mark.parametrize(("network", "cell"), _TAGGERS)
def test_taggers_equal_their_equations(network, cell):
    config = settings("tagger", cell=cell, **NETWORKS[network])
    model = make_tagger(config, {}, 2)
    rng = np.random.default_rng(0)
    # The last row is only padding, and all sequences are shorter than the batch's 6 positions.
    xs = jnp.asarray(rng.normal(size=(4, 6, 2)), jnp.float32)
    mask = jnp.arange(6)[None] < jnp.array([*LENGTHS, 0])[:, None]
    params = random_params(model, {"x": xs}, mask)
    outputs = jax.jit(model.apply)({"params": params}, {"x": xs}, mask)
    target = rng.normal(size=outputs.shape).astype(np.float32)
    sequences = [as_float64(xs[row, :length]) for row, length in enumerate(LENGTHS)]
    for row, sequence in enumerate(sequences):
        expected = reference.tagger(as_float64(params), config, sequence)
        np.testing.assert_allclose(outputs[:, row, : len(sequence)], expected, atol=2e-5)

    def ours(params):
        outputs = model.apply({"params": params}, {"x": xs}, mask)
        return jnp.sum((outputs - target) ** 2 * mask[None, :, :, None])

    def theirs(params):
        total = 0.0
        for row, sequence in enumerate(sequences):
            error = reference.tagger(params, config, sequence) - target[:, row, : len(sequence)]
            total += np.sum(error**2)
        return total

    gradient = jax.jit(jax.grad(ours))(params)
    check_gradient(theirs, as_float64(params), as_float64(gradient), rng)


def test_the_directions_of_a_brnn_layer_do_not_interact():
    """Forward states do not depend on later inputs, and backward states not on earlier ones."""
    config = settings("tagger", cell="gru", network="brnn")
    model = make_tagger(config, {}, 2)
    xs, mask = jnp.ones((1, 5, 2)), jnp.ones((1, 5), bool)
    params = random_params(model, {"x": xs}, mask)
    for half, depends in ((slice(0, 3), lambda t, s: s <= t), (slice(3, 6), lambda t, s: s >= t)):
        kernel = params["output"]["kernel"]
        kernel = jnp.zeros_like(kernel).at[half].set(kernel[half])
        one_half = {**params, "output": {**params["output"], "kernel": kernel}}

        def outputs(xs, params=one_half):
            return model.apply({"params": params}, {"x": xs}, mask)[0, 0].sum(axis=-1)

        nonzero = np.asarray(jax.jit(jax.jacobian(outputs))(xs))[:, 0].any(axis=-1)
        assert (nonzero == [[depends(t, s) for s in range(5)] for t in range(5)]).all()


def test_inputs_may_be_words_tags_and_characters():
    config = settings("tagger", network="mlp", window=0, small_embedding=2)
    sizes = {"word": 9, "pos": 9, "characters": 9}
    model = make_tagger(config, sizes, 2)
    rng = np.random.default_rng(0)
    letters = np.array([[[1, 2, 3, 0], [4, 0, 0, 0], [0, 0, 0, 0]]])
    inputs = {
        "word": random_words(rng, 1, 3),
        "pos": random_words(rng, 1, 3),
        "characters": letters,
    }
    inputs = jax.tree.map(jnp.asarray, inputs)
    mask = jnp.array([[True, True, False]])
    params = random_params(model, inputs, mask)
    outputs = model.apply({"params": params}, inputs, mask)
    # jax.jit sorts the keys of `inputs`; the output must not depend on the order of keys.
    jitted = jax.jit(model.apply)({"params": params}, inputs, mask)
    np.testing.assert_allclose(jitted, outputs, atol=1e-5)
    w = as_float64(params)
    for t, count in enumerate((3, 1)):
        x = np.concatenate([
            reference.characters(w["inputs"]["characters"], letters[0, t, :count]),
            w["inputs"]["pos"]["embedding"][inputs["pos"][0, t]],
            w["inputs"]["word"]["embedding"][inputs["word"][0, t]],
        ])  # fmt: skip
        expected = reference.tagger(w, config, x[None])[:, 0]
        np.testing.assert_allclose(outputs[:, 0, t], expected, atol=1e-5)


SENTENCES = {
    "attention": {"pooling": "attention", "hops": 2, "attention_features": 3, "hidden": 4},
    "mean": {"pooling": "mean", "hidden": 0},
    "max": {"pooling": "max", "hidden": 0, "layers": 2},
    "last": {"pooling": "last", "hidden": 4},
}


@pytest.mark.parametrize("pooling", SENTENCES)
def test_sentence_classifiers_equal_their_equations(pooling):
    config = settings("sentence", **SENTENCES[pooling])
    model = make_sentence(config, 9, 3)
    rng = np.random.default_rng(0)
    batch = np.zeros((4, 6), int)
    texts = [random_words(rng, n) for n in LENGTHS]
    for row, text in zip(batch, texts, strict=False):
        row[: len(text)] = text
    batch = jnp.asarray(batch)
    params = random_params(model, batch)
    logits, weights = jax.jit(model.apply)({"params": params}, batch)
    assert np.isfinite(logits).all()  # an empty sentence (the padding row) must not cause NaN
    for row, text in enumerate(texts):
        expected, hops = reference.sentence(as_float64(params), config, text)
        np.testing.assert_allclose(logits[row], expected, atol=2e-5)
        if hops is not None:
            np.testing.assert_allclose(weights["hops"][row, :, : len(text)], hops, atol=1e-5)
            assert not weights["hops"][row, :, len(text) :].any()

    def ours(params):
        logits, _ = model.apply({"params": params}, batch)
        return jnp.sum(jnp.sin(logits[: len(texts)]))

    def theirs(params):
        return sum(np.sum(np.sin(reference.sentence(params, config, text)[0])) for text in texts)

    gradient = jax.jit(jax.grad(ours))(params)
    check_gradient(theirs, as_float64(params), as_float64(gradient), rng)


def test_han_equals_its_equations():
    config = settings("han", attention_features=3)
    model = make_han(config, 9, 3)
    rng = np.random.default_rng(0)
    documents = [[random_words(rng, n) for n in lengths] for lengths in ((2, 4, 1), (3,), (1, 5))]
    batch = np.zeros((4, 4, 6), int)
    for row, document in zip(batch, documents, strict=False):
        for line, text in zip(row, document, strict=False):
            line[: len(text)] = text
    batch = jnp.asarray(batch)
    params = random_params(model, batch)
    logits, weights = jax.jit(model.apply)({"params": params}, batch)
    assert np.isfinite(logits).all()
    for row, document in enumerate(documents):
        expected, word_weights, sentence_weights = reference.han(
            as_float64(params), config, document
        )
        np.testing.assert_allclose(logits[row], expected, atol=2e-5)
        count = len(document)
        np.testing.assert_allclose(weights["sentences"][row, :count], sentence_weights, atol=1e-5)
        assert not weights["sentences"][row, count:].any()
        for i, expected in enumerate(word_weights):
            ours = weights["words"][row, i, : len(expected)]
            np.testing.assert_allclose(ours, expected, atol=1e-5)

    def ours(params):
        return jnp.sum(jnp.sin(model.apply({"params": params}, batch)[0][: len(documents)]))

    def theirs(params):
        return sum(np.sum(np.sin(reference.han(params, config, d)[0])) for d in documents)

    gradient = jax.jit(jax.grad(ours))(params)
    check_gradient(theirs, as_float64(params), as_float64(gradient), rng)


@pytest.mark.parametrize("kind", ["attention_over_attention", "attention_sum"])
def test_readers_equal_their_equations(kind):
    config = settings("reader", reader=kind)
    model = make_reader(config, 9)
    rng = np.random.default_rng(0)
    questions = [(random_words(rng, n), random_words(rng, m)) for n, m in ((6, 2), (1, 1), (4, 3))]
    passage, query = np.zeros((4, 7), int), np.zeros((4, 4), int)
    for row, (text, asked) in enumerate(questions):
        passage[row, : len(text)], query[row, : len(asked)] = text, asked
    passage, query = jnp.asarray(passage), jnp.asarray(query)
    params = random_params(model, passage, query)
    s, weights = jax.jit(model.apply)({"params": params}, passage, query)
    assert np.isfinite(s).all()
    np.testing.assert_allclose(s.sum(axis=1), [1, 1, 1, 0], atol=1e-5)
    for row, (text, asked) in enumerate(questions):
        n, m = len(text), len(asked)
        expected, alpha, beta = reference.reader(as_float64(params), config, text, asked)
        np.testing.assert_allclose(s[row, :n], expected, atol=1e-5)
        if alpha is not None:
            np.testing.assert_allclose(weights["alpha"][row, :m, :n], alpha, atol=1e-5)
            np.testing.assert_allclose(weights["beta"][row, :m], beta, atol=1e-5)

    def ours(params):
        s, _ = model.apply({"params": params}, passage, query)
        return jnp.sum(jnp.sin(3 * s))

    def theirs(params):
        return sum(
            np.sum(np.sin(3 * reference.reader(params, config, *question)[0]))
            for question in questions
        )

    gradient = jax.jit(jax.grad(ours))(params)
    check_gradient(theirs, as_float64(params), as_float64(gradient), rng)
