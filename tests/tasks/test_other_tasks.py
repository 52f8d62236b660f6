"""Losses and predictions of the labelling, classification and cloze tasks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.batches import Bucket, make_batch
from data.vocabulary import PAD, UNK
from tasks.losses import penalty
from tasks.registry import make_task
from tasks.task import drop_words
from tests.small import TASKS, random_weights, small_config

_SLOW = (
    "series",
    "sentence",
    "pooled",
    "sum",
    "music",
)  # these models share their code with the others


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW)) for name in TASKS],
)
def task(request, tmp_path_factory):
    return make_task(small_config(request.param, tmp_path_factory.mktemp(request.param)))


def large_params(task):
    """Return parameters that are so large that a mistake in the code changes the results."""
    return jax.tree.map(jnp.asarray, random_weights(task, mean=0.1))


def on_device(batch):
    """Convert a batch to JAX arrays, for calls that are not compiled."""
    return jax.tree.map(jnp.asarray, batch)


def test_padding_and_other_rows_do_not_change_losses_or_predictions(task):
    """Padding rows, time steps, words and sentences are added to a batch at the same time."""
    split, params = task.prepared.split("test"), large_params(task)
    loss, predict = jax.jit(task.loss), jax.jit(task.predict)
    members = np.arange(3)
    tight = Bucket(1, tuple(map(int, split.lengths[0])))
    wide = Bucket(4, tuple(int(n) + 3 for n in split.lengths[members].max(axis=0)))
    batches = [make_batch(split, bucket, members[:1]) for bucket in (tight, wide)]
    alone, padded = (loss(params, batch) for batch in batches)
    together = loss(params, make_batch(split, wide, members))
    each = [loss(params, make_batch(split, wide, np.array([i]))) for i in members]
    for name, value in alone.items():
        np.testing.assert_allclose(padded[name], value, rtol=2e-5)
        np.testing.assert_allclose(together[name], sum(sums[name] for sums in each), rtol=2e-5)
    predictions = [predict(params, batch) for batch in batches]
    for alone, padded in zip(*predictions, strict=True):
        for name, values in alone.items():
            unpadded = padded[name][tuple(slice(n) for n in values.shape)]
            np.testing.assert_allclose(unpadded, values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["columns", "sentence", "han", "reader"])
def test_a_batch_of_padding_has_zero_loss_and_finite_gradients(name, tmp_path):
    task = make_task(small_config(name, tmp_path))
    split = task.prepared.split("test")
    lengths = tuple(map(int, split.lengths.max(axis=0)))
    batch = on_device(make_batch(split, Bucket(2, lengths), np.array([], int)))
    params = large_params(task)
    sums, gradient = jax.jit(jax.value_and_grad(lambda p: task.loss(p, batch)["loss"]))(params)
    assert sums == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("name", ["series", pytest.param("columns", marks=pytest.mark.slow)])
def test_merged_networks_are_trained_independently(name, tmp_path):
    """No network's gradient depends on the other network; evaluation averages their outputs."""
    config = small_config(name, tmp_path)
    config.model.update({"network": "merged", "dropout": 0.0})
    task = make_task(config)
    batch, key = on_device(task.train_batches()[0]), jax.random.key(0)
    params = large_params(task)
    gradient = jax.jit(jax.grad(lambda p: task.loss(p, batch, key)["loss"]))
    changed = {**params, "backward": jax.tree.map(lambda x: x + 1, params["backward"])}
    first, second = gradient(params), gradient(changed)
    jax.tree.map(np.testing.assert_array_equal, first["forward"], second["forward"])
    differs = jax.tree.map(lambda a, b: bool((a != b).any()), first["backward"], second["backward"])
    assert any(jax.tree.leaves(differs))
    if name == "series":
        outputs = task.model.apply({"params": params}, {"x": batch["x"]}, jnp.ones((8, 12), bool))
        error = (outputs.mean(axis=0) - batch["label"]) ** 2
        expected = np.sum(error[batch["index"] >= 0])
        np.testing.assert_allclose(task.loss(params, batch)["loss"], expected, rtol=1e-5)


def test_frames_are_predicted_from_earlier_frames(tmp_path):
    """The loss is −log p of all 88 notes, summed over all frames except the first."""
    task = make_task(small_config("music", tmp_path))
    params, split = large_params(task), task.prepared.split("test")
    predict, loss = jax.jit(task.predict), jax.jit(task.loss)
    for i in range(2):
        frames = next(split.examples(np.array([i])))["label"].astype(float)
        batch = make_batch(split, Bucket(1, (len(frames),)), np.array([i]))
        p = np.asarray(predict(params, batch)[0]["label"][0], np.float64)
        nll = -np.sum(frames[1:] * np.log(p) + (1 - frames[1:]) * np.log(1 - p))
        sums = loss(params, batch)
        np.testing.assert_allclose(sums["loss"], nll, rtol=1e-4)
        assert sums["count"] == len(frames) - 1
        changed = {**batch, "label": batch["label"].copy()}
        changed["label"][0, -1] = 1 - changed["label"][0, -1]
        # The model never reads the last frame, which is only a label, so predictions stay equal.
        prediction = predict(params, changed)[0]["label"][0]
        np.testing.assert_array_equal(prediction, predict(params, batch)[0]["label"][0])


def test_the_probability_of_an_answer_is_the_sum_over_its_occurrences(tmp_path):
    task = make_task(small_config("reader", tmp_path))
    params, batch = large_params(task), next(iter(task.eval_batches("test")))
    answers, attention = jax.jit(task.predict)(params, batch)
    total = 0.0
    for row, index in enumerate(batch["index"]):
        if index < 0:
            continue
        occurrences = [batch["candidate"][row] == k for k in range(1, 11)]
        p = [float(np.sum(attention["s"][row][mask])) for mask in occurrences]
        assert answers["answer"][row] == np.argmax(p) + 1
        total -= np.log(p[batch["answer"][row] - 1])
    np.testing.assert_allclose(jax.jit(task.loss)(params, batch)["loss"], total, rtol=1e-5)


@pytest.mark.parametrize("name", [pytest.param("reader", marks=pytest.mark.slow), "pooled"])
def test_word_dropout_is_applied_in_training_only(name, tmp_path):
    config = small_config(name, tmp_path)
    config.model.dropout = 0.0
    task = make_task(config)
    params, batch, key = large_params(task), on_device(task.train_batches()[0]), jax.random.key(0)
    config.train.word_dropout = 0.0
    plain = task.loss(params, batch)["loss"]
    np.testing.assert_allclose(task.loss(params, batch, key)["loss"], plain, rtol=1e-6)
    config.train.word_dropout = 0.7
    assert task.loss(params, batch)["loss"] == plain != task.loss(params, batch, key)["loss"]


def test_word_dropout_replaces_a_fraction_of_the_words():
    words = jnp.array([[5, 6, 7, PAD]] * 500)
    dropped = np.asarray(drop_words(words, 0.3, jax.random.key(0)))
    assert set(np.unique(dropped[:, 3])) == {PAD}
    assert 0.25 < np.mean(dropped[:, :3] == UNK) < 0.35
    assert ((dropped == UNK) | (dropped == words)).all()


def test_the_attention_penalty_is_added_in_training_only_and_not_for_padding(tmp_path):
    config = small_config("sentence", tmp_path)
    config.model.dropout, config.train.word_dropout = 0.0, 0.0
    task = make_task(config)
    params, split, key = large_params(task), task.prepared.split("test"), jax.random.key(0)
    lengths = tuple(int(n) + 2 for n in split.lengths.max(axis=0))
    batch = on_device(make_batch(split, Bucket(8, lengths), np.arange(3)))
    config.train.penalty = 0.0
    plain = task.loss(params, batch, key)["loss"]
    np.testing.assert_allclose(plain, task.loss(params, batch)["loss"], rtol=1e-6)
    config.train.penalty = 0.5
    hops = task.predict(params, batch)[1]["hops"][:3]
    expected = plain + 0.5 * sum(penalty(hops))
    np.testing.assert_allclose(task.loss(params, batch, key)["loss"], expected, rtol=1e-5)


def test_the_attention_penalty_equals_its_equation():
    hops = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3))
    expected = [np.linalg.norm(a @ a.T - np.eye(3), "fro") ** 2 for a in hops]
    np.testing.assert_allclose(penalty(jnp.array(hops)), expected, rtol=1e-5)
    assert float(penalty(jnp.eye(3)[None])[0]) == 0
