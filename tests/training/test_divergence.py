"""Tests that diverged runs stop with an error, and that no other run is taken for diverged.

Losses that are large, negative or rarely NaN are not divergence.
"""

import json
import math
import os
import signal

import jax
import numpy as np
import pytest

from errors import Stopped, UserError
from tests.toy import Exploding, Line, Points, constant_evaluation, toy_config
from training.checkpoints import Checkpoints
from training.devices import AHEAD
from training.divergence import has_diverged
from training.loop import Evaluation, train
from training.step import CompiledStep
from training.workdir import is_done


def read_log(workdir, kind):
    lines = map(json.loads, (workdir / "log.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


def assert_same_bits(left, right):
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(left), jax.device_get(right))


class NotFinite(Line):
    """The task `Line` with NaN in the batches for whose index `missing` returns true."""

    def __init__(self, missing):
        self.missing = missing

    def train_batches(self, seed, host, hosts):
        missing = self.missing

        class Holes(Points):
            def __getitem__(self, index):
                batch = super().__getitem__(index)
                return {"x": batch["x"] * np.float32(np.nan if missing(index) else 1)}

        return Holes()


def interrupting(evaluate):
    """Wrap an evaluation function so that each call sends a real SIGTERM to this process."""

    def wrapped(params):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(params)

    return wrapped


def unstable_config(**train):
    """Return a config with which the loss of `Line` grows by a large factor per training step."""
    config = toy_config(**train)
    config.optimizer.update({"name": "sgd", "learning_rate": 3.0})
    return config


# Tests of losses that are finite but far too large


def test_a_run_whose_losses_explode_stops_at_the_evaluation(tmp_path, mesh):
    config = unstable_config(steps=100)
    expected = (
        r"training diverged at step 10: the training loss is \S+e\+\d+ and the validation loss "
        r"1e\+09, but .* first training step was \d.*optimizer\.learning_rate.*of step 5 is kept"
    )
    with pytest.raises(UserError, match=expected):
        train(Line(), constant_evaluation(1.0, 1e9), config, tmp_path, mesh)
    assert [line["step"] for line in read_log(tmp_path, "valid")] == [5, 10]
    assert Checkpoints(tmp_path, read_only=True).find("best") == [5]
    assert not is_done(tmp_path)


def test_a_diverged_run_is_not_complete_when_it_is_started_again(tmp_path, mesh):
    config = unstable_config(steps=5)
    for _ in range(2):
        with pytest.raises(UserError, match=r"diverged at step 5.*no checkpoint was saved"):
            train(Line(), constant_evaluation(1e9), config, tmp_path, mesh)
        assert not is_done(tmp_path)


def test_the_first_loss_is_remembered_when_a_run_resumes(tmp_path, mesh):
    config = unstable_config(steps=100, eval_every=2)
    with pytest.raises(UserError, match=r"diverged at step 6.* was (\S+);") as whole:
        train(Line(), constant_evaluation(1.0, 1.0, 1e9), config, tmp_path, mesh)
    with pytest.raises(UserError) as resumed:
        train(Line(), constant_evaluation(1e9), config, tmp_path, mesh)
    assert str(resumed.value) == str(whole.value)


def test_overfitting_is_not_divergence(tmp_path, mesh):
    train(Line(), constant_evaluation(1.0, 1e9), toy_config(), tmp_path, mesh)
    assert is_done(tmp_path)


@pytest.mark.parametrize(
    ("first", "training", "validation", "expected"),
    [
        (4.0, 7e9, 7e9, True),
        (4.0, 50.0, 50.0, True),
        (4.0, 39.0, 39.0, False),  # losses below the limit of 10 times the first loss
        (4.0, 0.1, 7e9, False),  # overfitting: only the validation loss is large
        (4.0, 7e9, 2.0, False),  # outliers: only the training loss is large
        (1e6, 2e6, 3e6, False),  # a regression task with large targets has large losses
        (1e6, 2e7, 2e7, True),
        (1e-6, 0.5, 0.5, False),  # a regression task with small targets has a tiny first loss
        (-3.0, -20.0, -20.0, False),  # losses may be negative: −log of a density
        (-3.0, 15.0, 15.0, False),
        (-3.0, 1e5, 1e5, True),
        (4.0, math.nan, math.nan, True),
        (4.0, math.inf, math.inf, True),
        (4.0, 3.0, math.nan, False),
    ],
)
def test_divergence_criterion(first, training, validation, expected):
    assert has_diverged(first, training, validation) == expected


def test_a_run_with_negative_losses_is_complete(tmp_path, mesh):
    class Density(Line):
        def loss(self, params, batch, key=None):
            sums = super().loss(params, batch)
            return sums | {"loss": sums["loss"] - 1000 * sums["count"]}

    train(Density(), constant_evaluation(-990.0, -1000.0), toy_config(), tmp_path, mesh)
    assert is_done(tmp_path)


# Tests of validation losses that are not finite, although the training loss is finite


@pytest.mark.parametrize("patience", [0, 2])
def test_a_run_without_a_finite_validation_loss_is_an_error(tmp_path, mesh, patience):
    last = 10 if patience else 20
    expected = (
        rf"was not finite in any evaluation up to step {last}, although the training "
        rf"loss is \d.*check the validation data.*checkpoint of step {last - 5} is kept"
    )
    for _ in range(2):  # a restarted run must raise the same error
        with pytest.raises(UserError, match=expected):
            train(
                Line(), constant_evaluation(math.nan), toy_config(patience=patience), tmp_path, mesh
            )
        assert not is_done(tmp_path)


def test_a_validation_loss_that_is_not_finite_is_reported_and_never_the_best(
    tmp_path, mesh, caplog
):
    results = iter([(2.0, 0.5), (math.nan, 0.9), (1.0, 0.7), (math.nan, 0.8)])

    def evaluate(params):
        loss, exact = next(results)
        return Evaluation({"loss": loss, "exact": exact})

    with caplog.at_level("INFO", "alignax"):
        train(Line(), evaluate, toy_config(eval_metric="exact"), tmp_path, mesh)
    warnings = [line for line in caplog.messages if line.startswith("warning: the validation loss")]
    assert [line.partition(";")[0] for line in warnings] == [
        "warning: the validation loss at step 10 is nan",
        "warning: the validation loss at step 20 is nan",
    ]
    assert Checkpoints(tmp_path, read_only=True).find("best") == [15]
    assert is_done(tmp_path)


# Tests of training steps that are skipped because their loss or gradient is not finite


def test_too_many_skipped_steps_stop_the_run_and_keep_the_last_checkpoint(tmp_path, mesh):
    config = toy_config(max_skipped=3, eval_every=2, log_every=100)
    expected = r"diverged at step 7: 3 consecutive training steps .* checkpoint of step 6 is kept"
    with pytest.raises(UserError, match=expected):
        train(Exploding(), constant_evaluation(1.0), config, tmp_path, mesh)
    healthy = train(Line(), constant_evaluation(1.0), toy_config(steps=4), tmp_path / "ok", mesh)
    checkpoints = Checkpoints(tmp_path, read_only=True)
    saved, _ = checkpoints.restore(healthy, *checkpoints.find("last"))
    assert_same_bits(saved.params, healthy.params)


def test_the_limit_on_skipped_steps_does_not_wait_for_a_log_line(tmp_path, mesh, monkeypatch):
    dispatched = []

    class Counting(CompiledStep):
        def __call__(self, *arguments):
            dispatched.append(None)
            return super().__call__(*arguments)

    monkeypatch.setattr("training.loop.CompiledStep", Counting)
    config = toy_config(max_skipped=3, steps=1000, eval_every=1000, log_every=1000)
    with pytest.raises(UserError, match="diverged at step 7: 3 consecutive"):
        train(Exploding(), constant_evaluation(1.0), config, tmp_path, mesh)
    assert len(dispatched) == 7 + AHEAD
    (last,) = read_log(tmp_path, "train")  # the error also logs a record
    assert (last["step"], last["skipped"], last["count"]) == (7, 3, 4 * 8)


def test_skipped_steps_before_any_evaluation_save_the_last_finite_parameters(tmp_path, mesh):
    config = toy_config(max_skipped=3, eval_every=20)
    with pytest.raises(UserError, match=r"3 consecutive .* checkpoint of step 15 is kept"):
        train(Exploding(), constant_evaluation(1.0), config, tmp_path, mesh)
    last = read_log(tmp_path, "train")[-1]
    # All steps since the previous log record were skipped, so the last record has no loss.
    assert (last["loss"], last["skipped"]) == (None, 3)
    with pytest.raises(UserError, match="11 consecutive"):  # a restart must fail, too
        train(Exploding(), constant_evaluation(1.0), config, tmp_path, mesh)


@pytest.mark.parametrize("steps", [2, 100])
def test_a_run_without_any_finite_step_does_not_blame_the_learning_rate(tmp_path, mesh, steps):
    config = toy_config(max_skipped=3, steps=steps, eval_every=50)
    expected = rf"no training step so far had a finite loss and gradient \({min(3, steps)} steps\)"
    with pytest.raises(UserError, match=expected) as error:
        train(NotFinite(lambda index: True), constant_evaluation(1.0), config, tmp_path, mesh)
    message = str(error.value)
    assert all(cause in message for cause in ("data", "init_scale", "dtype"))
    assert "learning_rate" not in message and not is_done(tmp_path)


def test_a_few_skipped_steps_are_reported_and_do_not_stop_a_run(tmp_path, mesh, caplog):
    task = NotFinite(lambda index: index % 3 < 2 and index < 15)
    config = toy_config(max_skipped=3, log_every=10)
    with caplog.at_level("INFO", "alignax"):
        state = train(task, constant_evaluation(1.0), config, tmp_path, mesh)
    assert int(state.skipped) == 10 and is_done(tmp_path)
    found = [line.partition(";")[0] for line in caplog.messages if "skipped" in line]
    # Evaluations every 5 steps also report. The last report has no new skipped steps.
    since = "skipped training steps since the last report"
    assert found == [
        f"warning: step 5: {since}: 4, in total: 4",
        f"warning: step 10: {since}: 3, in total: 7",
        f"warning: step 15: {since}: 3, in total: 10",
    ]


@pytest.mark.parametrize("before", [{1}, {0, 1}, {1, 2}, {0, 2, 3}])
def test_the_limit_on_skipped_steps_is_exact(tmp_path, mesh, before):
    task = NotFinite(lambda index: index in before or index >= 5)
    config = toy_config(max_skipped=3, steps=50, eval_every=50, log_every=50)
    with pytest.raises(UserError, match="diverged at step 8: 3 consecutive"):
        train(task, constant_evaluation(1.0), config, tmp_path, mesh)


def test_a_resumed_run_counts_the_steps_that_were_skipped_before(tmp_path, mesh):
    task = NotFinite(lambda index: index >= 4)
    config = toy_config(max_skipped=4, steps=50, eval_every=6, log_every=50)
    with pytest.raises(Stopped):  # interrupt after step 6; steps 5 and 6 were skipped
        train(task, interrupting(constant_evaluation(1.0)), config, tmp_path, mesh)
    with pytest.raises(UserError, match="diverged at step 8: 4 consecutive"):
        train(task, constant_evaluation(1.0), config, tmp_path, mesh)
