import json
import os
import shutil
import signal

import jax
import numpy as np
import pytest

from errors import Stopped
from tests.saved import committed
from tests.toy import Line, Points, constant_evaluation, toy_config
from training.checkpoints import Checkpoints
from training.devices import AHEAD
from training.loop import Evaluation, train
from training.step import CompiledStep
from training.workdir import is_done


def log_of(workdir, kind):
    """Return the log records of a kind without their times, which differ between runs."""
    lines = map(json.loads, (workdir / "log.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind and line.pop("time")]


def assert_same_bits(left, right):
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(left), jax.device_get(right))


def interrupting(evaluate, at):
    """Wrap an evaluation function so that its `at`-th call sends a real SIGTERM."""
    calls = []

    def wrapped(params):
        calls.append(None)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(params)

    return wrapped


class Interrupted(Line):
    """The task `Line`, which sends a real SIGINT when the batch with index `at` is read."""

    def __init__(self, at):
        self.at = at

    def train_batches(self, seed, host, hosts):
        at = self.at

        class Interrupting(Points):
            def __getitem__(self, index):
                if index == at:
                    os.kill(os.getpid(), signal.SIGINT)
                return super().__getitem__(index)

        return Interrupting()


def test_resuming_after_a_signal_during_an_evaluation_is_bit_exact(tmp_path, mesh):
    config, losses = toy_config(ema=0.9), (3.0, 2.0, 2.0, 1.0)
    config.optimizer.update({"schedule": "plateau", "plateau_patience": 1})
    whole = train(Line(), constant_evaluation(*losses), config, tmp_path / "whole", mesh)
    with pytest.raises(Stopped, match=r"SIGTERM: saved after step 5; run the same command again"):
        stopped = interrupting(constant_evaluation(*losses), 1)
        train(Line(), stopped, config, tmp_path / "parts", mesh)
    resumed = train(Line(), constant_evaluation(*losses[1:]), config, tmp_path / "parts", mesh)
    assert_same_bits(whole, resumed)
    assert log_of(tmp_path / "whole", "valid") == log_of(tmp_path / "parts", "valid")


def test_resuming_after_a_signal_between_evaluations_is_bit_exact(tmp_path, mesh):
    # The signal arrives at step 7, but training stops some steps later: those already dispatched.
    config = toy_config(steps=40, eval_every=20, log_every=17)
    evaluate = constant_evaluation(3.0, 2.0)
    whole = train(Line(), evaluate, config, tmp_path / "whole", mesh)

    with pytest.raises(Stopped, match="SIGINT"):
        train(Interrupted(at=7), evaluate, config, tmp_path / "parts", mesh)
    assert not log_of(tmp_path / "parts", "valid")
    resumed = train(Line(), constant_evaluation(3.0, 2.0), config, tmp_path / "parts", mesh)
    assert_same_bits(whole, resumed)
    parts = log_of(tmp_path / "parts", "train")
    steps = [line["step"] for line in parts]
    # The signal causes a log record before step 17, the first regular one.
    assert steps == sorted(set(steps)) and steps[0] < 17
    assert parts[-1]["count"] == 8 * 40  # the resumed run loses or repeats no example


def test_starting_a_complete_run_does_nothing(tmp_path, mesh):
    config = toy_config()
    first = train(Line(), constant_evaluation(1.0), config, tmp_path, mesh)

    def evaluate(params):
        raise AssertionError("nothing is left to evaluate")

    assert_same_bits(first, train(Line(), evaluate, config, tmp_path, mesh))


def test_a_run_is_done_when_its_final_checkpoint_is_committed(tmp_path, mesh):
    config, evaluate = toy_config(), constant_evaluation(1.0)
    with pytest.raises(Stopped):
        train(Line(), interrupting(evaluate, 2), config, tmp_path, mesh)
    assert not is_done(tmp_path)
    train(Line(), evaluate, config, tmp_path, mesh)
    assert is_done(tmp_path)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_complete_run_whose_last_checkpoint_is_corrupt_is_not_done(tmp_path, mesh):
    config = toy_config()
    first = train(Line(), constant_evaluation(1.0), config, tmp_path, mesh)
    for path in committed(tmp_path)[20].rglob("*"):
        if path.is_file():
            path.write_bytes(b"")

    def evaluate(params):
        assert not is_done(tmp_path)
        assert json.loads((tmp_path / "status.json").read_text()) == {"step": 15, "done": False}
        return Evaluation({"loss": 1.0})

    assert_same_bits(first, train(Line(), evaluate, config, tmp_path, mesh))
    assert is_done(tmp_path)
    shutil.rmtree(committed(tmp_path)[20])
    assert not is_done(tmp_path)


def test_a_missing_status_is_written_when_the_run_is_started_again(tmp_path, mesh):
    config = toy_config()
    train(Line(), constant_evaluation(1.0), config, tmp_path, mesh)
    (tmp_path / "status.json").unlink()
    train(Line(), constant_evaluation(1.0), config, tmp_path, mesh)
    assert is_done(tmp_path)


def test_steps_are_dispatched_ahead_of_the_oldest_pending_one(tmp_path, mesh, monkeypatch):
    """The host reads a step's results after dispatching AHEAD more steps, or at an evaluation."""
    dispatched, seen = [], []

    class Counting(CompiledStep):
        def __call__(self, *arguments):
            dispatched.append(None)
            return super().__call__(*arguments)

    def progress(self, step, loss, *throughput):
        seen.append((step, len(dispatched)))

    monkeypatch.setattr("training.loop.CompiledStep", Counting)
    monkeypatch.setattr("training.logs.Log.progress", progress)
    train(Line(), constant_evaluation(1.0), toy_config(eval_every=15), tmp_path, mesh)
    expected = [(n, min(n + AHEAD, 15)) for n in range(1, 16)]
    assert seen == expected + [(n, 20) for n in range(16, 21)]


def test_training_learns_the_line(tmp_path, mesh):
    state = train(Line(), constant_evaluation(1.0), toy_config(steps=200), tmp_path, mesh)
    np.testing.assert_allclose([state.params["w"], state.params["b"]], [3, -1], atol=1e-3)


def test_early_stopping_and_the_best_checkpoint(tmp_path, mesh):
    config = toy_config(steps=100, patience=2)
    state = train(Line(), constant_evaluation(3.0, 1.0, 2.0, 2.0, 0.0), config, tmp_path, mesh)
    assert int(state.step) == 20
    checkpoints = Checkpoints(tmp_path, read_only=True)
    assert (checkpoints.find("best"), checkpoints.find("last")) == ([10], [20])
    again = train(Line(), constant_evaluation(0.0), config, tmp_path, mesh)
    assert int(again.step) == 20  # a restart does not continue after early stopping


def test_a_lower_loss_breaks_ties_between_scores(tmp_path, mesh):
    found = iter([(4.0, 0.0), (3.0, 0.0), (2.0, 0.5), (1.5, 0.5), (1.8, 0.5), (1.0, 0.4)])

    def evaluate(params):
        loss, exact = next(found)
        return Evaluation({"loss": loss, "exact": exact})

    config = toy_config(steps=30, patience=2, eval_metric="exact")
    state = train(Line(), evaluate, config, tmp_path, mesh)
    assert int(state.step) == 30  # 25 if a tie with a lower loss were no improvement
    assert Checkpoints(tmp_path, read_only=True).find("best") == [20]


def test_the_plateau_schedule_lowers_the_learning_rate(tmp_path, mesh):
    config = toy_config(steps=25)
    config.optimizer.update({"schedule": "plateau", "plateau_patience": 2, "plateau_factor": 0.5})
    state = train(Line(), constant_evaluation(2.0, 1.0, 1.0, 1.0, 0.5), config, tmp_path, mesh)
    assert float(state.rate_scale) == 0.5
    rates = [line["learning_rate"] for line in log_of(tmp_path, "train")]
    np.testing.assert_allclose([rates[0], rates[-1]], [0.05, 0.025])


def test_the_logged_learning_rate_of_rprop_is_its_initial_step_size(tmp_path, mesh):
    config = toy_config(steps=5)
    config.optimizer.update({"name": "rprop", "learning_rate": 0.03})
    train(Line(), constant_evaluation(1.0), config, tmp_path, mesh)
    rates = [line["learning_rate"] for line in log_of(tmp_path, "train")]
    np.testing.assert_allclose(rates, 0.03)


def test_a_nan_score_is_never_the_best(tmp_path, mesh):
    config = toy_config(steps=30, patience=3)
    losses = (np.nan, 3.0, 2.0, 1.0, 2.0, 2.0)
    state = train(Line(), constant_evaluation(*losses), config, tmp_path, mesh)
    assert int(state.step) == 30
    assert Checkpoints(tmp_path, read_only=True).find("best") == [20]


def test_evaluation_uses_the_averaged_parameters(tmp_path, mesh):
    seen = []

    def evaluate(params):
        seen.append(float(params["w"]))
        return Evaluation({"loss": 1.0})

    state = train(Line(), evaluate, toy_config(steps=5, ema=0.99), tmp_path, mesh)
    assert seen == [float(state.ema["w"])] and seen[0] != float(state.params["w"])


def test_epochs_and_schedules_use_the_steps_per_epoch_of_the_task(tmp_path, mesh):
    config = toy_config(steps=0, epochs=3.0)
    config.optimizer.update({"schedule": "halving", "halve_from": 1.0})
    state = train(Line(), constant_evaluation(1.0), config, tmp_path, mesh)
    assert int(state.step) == 15  # three epochs of five training steps
    rates = [line["learning_rate"] for line in log_of(tmp_path, "train")]
    np.testing.assert_allclose(rates, np.repeat([0.05, 0.025, 0.0125], 5))


def test_the_seed_determines_parameters_batches_and_dropout(tmp_path, mesh):
    asked = []

    class Recording(Line):
        def train_batches(self, seed, host, hosts):
            asked.append(seed)
            return super().train_batches(seed, host, hosts)

        def init(self, key):
            return {"w": jax.random.normal(key), "b": jax.random.normal(key)}

        def loss(self, params, batch, key=None):
            drawn = jax.random.uniform(key)
            return super().loss(params, batch) | {"drawn": drawn * len(batch["x"])}

    def first(seed):
        config = toy_config(steps=1)
        config.seed = seed
        folder = tmp_path / str(seed)
        state = train(Recording(), constant_evaluation(1.0), config, folder, mesh)
        return float(state.params["w"]), log_of(folder, "train")[0]["drawn"]

    (w, drawn), (other_w, other_drawn) = first(3), first(4)
    assert w != other_w and drawn != other_drawn
    assert asked == [3, 4]


def test_sums_are_reported_as_means(tmp_path, mesh):
    train(Line(), lambda params: Evaluation({"loss": 1.0}), toy_config(), tmp_path, mesh)
    first = log_of(tmp_path, "train")[0]
    x = Line().train_batches(0, 0, 1)[0]["x"].astype(float)
    np.testing.assert_allclose(first["loss"], np.mean((1 - (3 * x - 1)) ** 2), rtol=1e-5)
