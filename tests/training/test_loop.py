import json
import os
import signal

import jax
import numpy as np
import pytest

from errors import UserError
from evaluation.translation import make_evaluate
from tests.conftest import tiny_config
from tests.toy import Exploding, Line, constant_evaluation, toy_config
from training import loop
from training.checkpoints import Checkpoints
from training.loop import Evaluation, train


def log_of(workdir, kind):
    lines = (workdir / "log.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


def assert_same_bits(left, right):
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(left), jax.device_get(right))


def interrupting(evaluate, at):
    """The same evaluation, with a real SIGTERM during its `at`-th call."""
    calls = []

    def wrapped(params):
        calls.append(None)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(params)

    return wrapped


def test_resumed_translation_ends_in_the_same_bits_and_compiles_once_a_bucket(
    tiny_task, cache, mesh, tmp_path, monkeypatch
):
    config = tiny_config(cache)
    config.train.update({"ema": 0.9, "eval_every": 2, "accumulation": 1})
    config.optimizer.update({"schedule": "plateau", "plateau_patience": 0})
    evaluate, steps = make_evaluate(tiny_task, mesh), []

    def remembered(*arguments):
        steps.append(loop_step(*arguments))
        return steps[-1]

    loop_step = loop.make_train_step
    monkeypatch.setattr(loop, "make_train_step", remembered)
    whole = train(tiny_task, evaluate, config, tmp_path / "whole", mesh)
    stopped = train(tiny_task, interrupting(evaluate, 1), config, tmp_path / "parts", mesh)
    assert int(stopped.step) == 2 < config.train.steps
    resumed = train(tiny_task, evaluate, config, tmp_path / "parts", mesh)
    assert_same_bits(whole, resumed)
    assert log_of(tmp_path / "whole", "valid") == log_of(tmp_path / "parts", "valid")
    assert steps[0]._cache_size() == len(tiny_task.train_batches().buckets) == 2


def test_a_signal_between_evaluations_saves_and_the_rest_is_the_same(tmp_path, mesh):
    def at_step_7(params):
        raise AssertionError("never evaluated")

    config = toy_config(eval_every=10)
    evaluate = constant_evaluation(3.0, 2.0)
    whole = train(Line(), evaluate, config, tmp_path / "whole", mesh)

    class Interrupted(Line):
        def train_batches(self, seed, host, hosts):
            batches = super().train_batches(seed, host, hosts)

            class AtSeven(type(batches)):
                def __getitem__(self, index):
                    if index == 7:
                        os.kill(os.getpid(), signal.SIGINT)
                    return super().__getitem__(index)

            return AtSeven()

    part = train(Interrupted(), at_step_7, config, tmp_path / "parts", mesh)
    assert 0 < int(part.step) < 10
    resumed = train(Line(), constant_evaluation(3.0, 2.0), config, tmp_path / "parts", mesh)
    assert_same_bits(whole, resumed)
    steps = [line["step"] for line in log_of(tmp_path / "parts", "train")]
    assert steps == sorted(set(steps))


def test_a_complete_run_does_nothing_more(tmp_path, mesh):
    config = toy_config()
    first = train(Line(), constant_evaluation(1.0), config, tmp_path, mesh)

    def evaluate(params):
        raise AssertionError("nothing is left to evaluate")

    assert_same_bits(first, train(Line(), evaluate, config, tmp_path, mesh))


def test_training_learns_the_line(tmp_path, mesh):
    state = train(Line(), constant_evaluation(1.0), toy_config(steps=200), tmp_path, mesh)
    np.testing.assert_allclose([state.params["w"], state.params["b"]], [3, -1], atol=1e-3)


def test_early_stopping_and_the_best_checkpoint(tmp_path, mesh):
    config = toy_config(steps=100, patience=2)
    state = train(Line(), constant_evaluation(3.0, 1.0, 2.0, 2.0, 0.0), config, tmp_path, mesh)
    assert int(state.step) == 20
    checkpoints = Checkpoints(tmp_path, read_only=True)
    assert (checkpoints.find("best"), checkpoints.find("last")) == (10, 20)
    again = train(Line(), constant_evaluation(0.0), config, tmp_path, mesh)
    assert int(again.step) == 20  # a run that stopped early stays stopped


def test_plateau_lowers_the_rate(tmp_path, mesh):
    config = toy_config(steps=25)
    config.optimizer.update({"schedule": "plateau", "plateau_patience": 1, "plateau_factor": 0.5})
    state = train(Line(), constant_evaluation(2.0, 1.0, 1.0, 1.0, 1.0), config, tmp_path, mesh)
    assert float(state.rate_scale) == 0.5
    rates = [line["learning_rate"] for line in log_of(tmp_path, "train")]
    np.testing.assert_allclose([rates[0], rates[-1]], [0.05, 0.025])


def test_divergence_stops_with_a_sentence_and_a_good_checkpoint(tmp_path, mesh):
    config = toy_config(max_skipped=3)
    with pytest.raises(UserError, match=r"3 steps in a row .* not finite"):
        train(Exploding(), constant_evaluation(1.0), config, tmp_path, mesh)
    healthy = train(Line(), constant_evaluation(1.0), toy_config(steps=4), tmp_path / "ok", mesh)
    checkpoints = Checkpoints(tmp_path, read_only=True)
    saved, _ = checkpoints.restore(healthy, checkpoints.find("last"))
    assert_same_bits(saved.params, healthy.params)  # the weights of the last good step
    assert int(saved.skipped) == 3


def test_sums_are_reported_as_means(tmp_path, mesh):
    train(Line(), lambda params: Evaluation({"loss": 1.0}), toy_config(), tmp_path, mesh)
    first = log_of(tmp_path, "train")[0]
    x = Line().train_batches(0, 0, 1)[0]["x"].astype(float)
    np.testing.assert_allclose(first["loss"], np.mean((1 - (3 * x - 1)) ** 2), rtol=1e-5)
