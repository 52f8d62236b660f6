import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data.vocabulary import BOS, EOS, PAD
from tasks.translation import shift_right


@pytest.fixture(scope="module")
def params(tiny_task):
    return jax.jit(tiny_task.init)(jax.random.key(0))


def test_padding_does_not_change_the_loss_or_its_gradient(tiny_task, params):
    batch = tiny_task.train_batches()[0]
    wider = {name: np.pad(batch[name], ((0, 3), (0, 5))) for name in ("source", "target")}

    @jax.jit
    def sums_and_gradient(params, batch):
        def objective(params):
            sums = tiny_task.loss(params, batch)
            return sums["loss"], sums

        gradient, sums = jax.grad(objective, has_aux=True)(params)
        return sums, gradient

    sums, gradient = sums_and_gradient(params, batch)
    padded_sums, padded_gradient = sums_and_gradient(params, wider)
    np.testing.assert_allclose(padded_sums["loss"], sums["loss"], rtol=1e-6)
    for padded, plain in zip(*map(jax.tree.leaves, (padded_gradient, gradient)), strict=True):
        np.testing.assert_allclose(padded, plain, rtol=1e-4, atol=1e-5)
    assert sums["count"] == padded_sums["count"] == (batch["target"] != PAD).sum()
    assert sums["accuracy"] == padded_sums["accuracy"]


def test_the_sums_of_two_half_batches_add_up_to_those_of_the_whole_batch(tiny_task, params):
    batch = tiny_task.train_batches()[0]
    loss = jax.jit(tiny_task.loss)
    slices = ({name: x[i * 8 : i * 8 + 8] for name, x in batch.items()} for i in range(2))
    halves = [loss(params, half) for half in slices]
    whole = loss(params, batch)
    for name in whole:
        np.testing.assert_allclose(halves[0][name] + halves[1][name], whole[name], rtol=1e-5)


def test_decoder_inputs_are_shifted_targets():
    target = jnp.array([[7, 8, EOS, PAD]])
    np.testing.assert_array_equal(shift_right(target), [[BOS, 7, 8, EOS]])


def test_dropout_is_applied_only_with_a_key(tiny_task, params):
    batch = tiny_task.train_batches()[0]
    loss = jax.jit(tiny_task.loss)
    without = loss(params, batch, None)["loss"]
    assert without == loss(params, batch, None)["loss"]
    dropped = [loss(params, batch, jax.random.key(i))["loss"] for i in (0, 0, 1)]
    assert dropped[0] == dropped[1] != dropped[2] != without


def test_smoothing_penalty_and_guidance_are_applied_in_training_only(tiny_task, params):
    batch = tiny_task.train_batches()[0]
    batch["links"] = np.ones((len(batch["target"]), 1, 2), np.int32)
    task = copy.copy(tiny_task)
    task.config = tiny_task.config.copy_and_resolve_references()
    changes = {"label_smoothing": 0.2, "doubly_stochastic": 0.2, "guided": {"weight": 0.2}}
    for name, change in changes.items():
        task.config.train = tiny_task.config.train.copy_and_resolve_references()
        task.config.train.update({name: change})
        keys = (None, jax.random.key(0))
        evaluated, trained = (jax.jit(task.loss)(params, batch, key) for key in keys)
        assert evaluated["loss"] == evaluated["nll"]
        assert trained["loss"] != trained["nll"]
        assert ("guided" in trained) == (name == "guided") and "guided" not in evaluated
    np.testing.assert_allclose(trained["loss"], trained["nll"] + 0.2 * trained["guided"], rtol=1e-5)
    assert trained["examples"] == (batch["index"] >= 0).sum()
