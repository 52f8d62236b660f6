import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from data.vocabulary import PAD
from errors import UserError
from models.dropout import Dropout
from tests.toy import Exploding, Line, Points, toy_config
from training import devices
from training.devices import make_mesh, put, replicated, state_sharding
from training.optimizers import make_optimizer, make_schedule
from training.state import create_state, purpose_key
from training.step import RunArguments, make_train_step, run_arguments, zero_sums

ONE = optax.constant_schedule(1.0)


def one_step(*arguments, **options):
    """Return the state and the loss sums after one gradient descent step with learning rate 1."""
    return jax.device_get(sharded_step(*arguments, **options)[:2])


def sharded_step(task, config, batch, devices, state_shards=1):
    mesh = make_mesh(jax.devices()[:devices], state_shards)
    optimizer = optax.sgd(1.0)
    state = create_state(jax.jit(task.init)(jax.random.key(0)), optimizer, bool(config.train.ema))
    state = jax.device_put(state, state_sharding(mesh, state))
    batch = put(batch, mesh)
    zeros = zero_sums(task.loss, state, batch, mesh)
    step = make_train_step(task.loss, optimizer, ONE, config, mesh, state)
    return step(state, zeros, batch, RunArguments(jax.random.key(0), jnp.ones(())))


def uneven_batch(task):
    """Return the batch with the most padding rows among the batches of one epoch."""
    batches = task.train_batches()
    epoch = [batches[i] for i in range(batches.steps_per_epoch)]
    return max(epoch, key=lambda batch: (batch["index"] < 0).sum())


@pytest.mark.parametrize(
    ("count", "shards"), [pytest.param(2, 1, marks=pytest.mark.slow), (8, 4)], ids=str
)
def test_loss_and_gradients_are_the_same_on_any_number_of_devices(
    tiny_task, monkeypatch, count, shards
):
    monkeypatch.setattr(devices, "SMALLEST", 32)
    config, batch = tiny_task.config.copy_and_resolve_references(), uneven_batch(tiny_task)
    assert config.model.dropout > 0  # so the test also covers dropout masks
    assert len(set((batch["target"] != PAD).sum(axis=1))) > 2
    config.optimizer.clip_norm = 0.0
    start = jax.tree.leaves(jax.jit(tiny_task.init)(jax.random.key(0)))
    expected, expected_sums = one_step(tiny_task, config, batch, devices=1)
    state, sums, _ = sharded_step(tiny_task, config, batch, count, state_shards=shards)
    whole = [x.sharding.is_fully_replicated for x in jax.tree.leaves(state.params)]
    assert all(whole) if shards == 1 else whole.count(False) > len(whole) / 2
    for name, value in expected_sums.items():
        np.testing.assert_allclose(sums[name], value, rtol=1e-5)
    pairs = zip(*map(jax.tree.leaves, (state.params, expected.params)), strict=True)
    for before, (ours, alone) in zip(start, pairs, strict=True):
        np.testing.assert_allclose(ours - before, alone - before, rtol=1e-3, atol=2e-6)


def test_dropout_masks_are_the_same_bits_on_any_number_of_devices():
    def dropped(key, x):
        return Dropout(0.5).apply({}, x, deterministic=False, rngs={"dropout": key})

    ones, masks = np.ones((16, 3, 8), np.float32), set()
    for count, shards in ((1, 1), (2, 1), (8, 1), (8, 2)):
        mesh = make_mesh(jax.devices()[:count], shards)
        mask = jax.jit(dropped)(jax.random.key(3), put({"x": ones}, mesh)["x"])
        assert len(mask.sharding.device_set) == count
        masks.add(np.asarray(mask).tobytes())
    assert len(masks) == 1


def test_large_arrays_are_sharded_along_their_longest_divisible_axis():
    mesh = make_mesh(jax.devices()[:8], state_shards=4)
    shapes = {(64, 128): (64, 32), (130, 64): (130, 16), (129, 65): (129, 65), (16,): (16,)}
    for shape, shard in shapes.items():
        sharding = state_sharding(mesh, jax.ShapeDtypeStruct(shape, np.float32))
        assert sharding.shard_shape(shape) == shard
    with pytest.raises(UserError, match=r"mesh\.state_shards=3 .*8"):
        make_mesh(jax.devices()[:8], state_shards=3)


# Ignore the deprecation warning of jax.pmap, which this test uses only as a reference.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_step_equals_a_correct_pmap(tiny_task):
    config, batch = tiny_task.config.copy_and_resolve_references(), uneven_batch(tiny_task)
    config.optimizer.clip_norm = 0.0

    class WithoutDropout(type(tiny_task)):  # pmap would draw other dropout masks
        def __init__(self):
            self.__dict__ = tiny_task.__dict__

        def loss(self, params, batch, key=None):
            return super().loss(params, batch)

    params = jax.jit(tiny_task.init)(jax.random.key(0))

    @functools.partial(jax.pmap, axis_name="device", in_axes=(None, 0))
    def pmapped(params, batch):
        def objective(params):
            sums = tiny_task.loss(params, batch)
            return sums["loss"], sums["count"]

        gradient, count = jax.grad(objective, has_aux=True)(params)
        count = jax.lax.psum(count, "device")
        return jax.tree.map(lambda g: jax.lax.psum(g, "device") / count, gradient)

    cut = jax.tree.map(lambda x: x.reshape(8, -1, *x.shape[1:]), batch)
    gradient = jax.tree.map(lambda g: g[0], pmapped(params, cut))
    # SGD with a learning rate of 1, so new parameters are parameters − gradient.
    ours, _ = one_step(WithoutDropout(), config, batch, devices=8)
    for before, after, g in zip(
        *map(jax.tree.leaves, (params, ours.params, gradient)), strict=True
    ):
        np.testing.assert_allclose(before - after, g, rtol=1e-3, atol=2e-6)


def random_loss(params, batch, key):
    """Return a loss whose gradient with respect to w is a random number drawn from `key`."""
    drawn = jax.random.uniform(key) * params["w"] + 0 * batch["x"].sum()
    return {"loss": drawn, "count": jnp.float32(1), "examples": jnp.float32(1)}


def test_random_keys_differ_by_step_micro_batch_and_seed():
    def drawn(seed, accumulation=1):
        config = toy_config(accumulation=accumulation)
        mesh = make_mesh(jax.devices()[:1])
        state = jax.device_put(
            create_state(Line().init(None), optax.sgd(1.0), False), replicated(mesh)
        )
        batch = put(Points()[0], mesh)
        step = make_train_step(random_loss, optax.sgd(1.0), ONE, config, mesh, state)
        values = []
        for _ in range(2):
            before = float(state.params["w"])
            zeros = zero_sums(random_loss, state, batch, mesh)
            run = RunArguments(purpose_key(seed, "dropout"), jnp.ones(()))
            state, *_ = step(state, zeros, batch, run)
            values.append(before - float(state.params["w"]))
        return values

    one, other = drawn(seed=0), drawn(seed=1)
    assert len({*one, *other}) == 4
    assert one == drawn(seed=0)
    halves = drawn(seed=0, accumulation=2)  # two microbatches draw different numbers
    assert halves[0] not in one


@pytest.mark.parametrize("name", ["adam", "rprop"])
def test_runs_with_different_seeds_and_learning_rates_share_one_compiled_program(name):
    """If each of them needed a compilation, short runs and sweeps would mostly compile."""

    def program(seed, rate):
        config, mesh = toy_config(), make_mesh(jax.devices()[:1])
        config.seed = seed
        config.optimizer.update({"name": name, "learning_rate": rate})
        schedule = make_schedule(config.optimizer, 10, 100)
        optimizer = make_optimizer(config.optimizer, schedule)
        state = create_state(Line().init(None), optimizer, False)
        batch = put(Points()[0], mesh)
        zeros = zero_sums(random_loss, state, batch, mesh)
        step = make_train_step(random_loss, optimizer, schedule, config, mesh, state)
        return step.lower(state, zeros, batch, run_arguments(config, mesh)).as_text()

    assert program(0, 0.1) == program(1, 0.2)


def test_gradients_are_divided_by_tokens_or_by_sentences():
    batch = Points()[0]
    per_token = one_step(Line(), toy_config(), batch, devices=1)[0].params["w"]
    per_sentence = one_step(Line(), toy_config(loss_per="sentence"), batch, devices=1)[0]
    np.testing.assert_allclose(per_sentence.params["w"], 2 * per_token, rtol=1e-6)


@pytest.mark.parametrize("accumulation", [2, 8])
def test_micro_batches_give_the_same_update_as_the_whole_batch(accumulation):
    batch = Points()[0]
    whole, whole_sums = one_step(Line(), toy_config(), batch, devices=1)
    config = toy_config(accumulation=accumulation)
    cut, cut_sums = one_step(Line(), config, batch, devices=8 // accumulation)
    np.testing.assert_allclose(cut.params["w"], whole.params["w"], rtol=1e-6)
    assert cut_sums["count"] == whole_sums["count"] == 8


def test_a_non_finite_step_changes_only_the_counters():
    batch = Exploding().train_batches(0, 0, 1)[4]
    state, sums = one_step(Exploding(), toy_config(ema=0.5), batch, devices=1)
    assert (state.params["w"], state.params["b"], state.ema["w"]) == (0, 1, 0)
    assert (state.step, state.skipped, state.skipped_in_row) == (1, 1, 1)
    assert sums["loss"] == sums["count"] == 0


def test_the_learning_rate_before_the_first_applied_step_is_that_of_step_0():
    mesh, schedule = make_mesh(jax.devices()[:1]), lambda step: 0.1 + step
    task = Exploding()
    state = create_state(task.init(None), optax.sgd(0.01), False)
    state = jax.device_put(state, replicated(mesh))
    batch = put(task.train_batches(0, 0, 1)[4], mesh)
    zeros = zero_sums(task.loss, state, batch, mesh)
    step = make_train_step(task.loss, optax.sgd(0.01), schedule, toy_config(), mesh, state)
    _, _, counters = step(state, zeros, batch, RunArguments(jax.random.key(0), jnp.float32(1)))
    assert (counters.skipped, counters.learning_rate) == (1, jnp.float32(0.1))


def test_only_the_state_is_donated():
    """The sums and counters of a step can still be read after later steps."""
    mesh, schedule = make_mesh(jax.devices()[:2]), lambda step: 0.5**step
    state = create_state(Exploding().init(None), optax.sgd(0.01), False)
    state = jax.device_put(state, replicated(mesh))
    source, task = Exploding().train_batches(0, 0, 1), Exploding()
    zeros = zero_sums(task.loss, state, put(source[0], mesh), mesh)
    step = make_train_step(task.loss, optax.sgd(0.01), schedule, toy_config(), mesh, state)
    sums, outputs = zeros, []
    for i in range(7):
        before = state
        run = RunArguments(jax.random.key(0), jnp.float32(0.5))
        state, sums, counters = step(state, sums, put(source[i], mesh), run)
        assert before.step.is_deleted()
        outputs.append((sums, counters))
    assert [int(sums["count"]) for sums, _ in outputs] == [8, 16, 24, 32, 32, 32, 32]
    assert [int(c.skipped) for _, c in outputs] == [0, 0, 0, 0, 1, 2, 3]
    assert [int(c.skipped_in_row) for _, c in outputs] == [0, 0, 0, 0, 1, 2, 3]
    # Steps 5 to 7 are skipped, and skipped steps do not advance the learning rate schedule.
    rates = [float(c.learning_rate) for _, c in outputs]
    assert rates == [0.5, 0.25, 0.125, 0.0625, 0.0625, 0.0625, 0.0625]
    assert float(zeros["count"]) == 0


def test_gradients_are_clipped_to_the_norm_and_never_scaled_up():
    batch = Points()[0]
    config = toy_config()
    free = one_step(Line(), config, batch, devices=1)[0].params
    step = np.array([free["w"] - 0, free["b"] - 1])
    norm = np.linalg.norm(step)
    for limit, expected in ((norm / 4, step / 4), (norm * 2, step)):
        config.optimizer.clip_norm = float(limit)
        params = one_step(Line(), config, batch, devices=1)[0].params
        np.testing.assert_allclose([params["w"], params["b"] - 1], expected, rtol=1e-5)


def test_ema_follows_the_parameters():
    state, _ = one_step(Line(), toy_config(ema=0.75), Points()[0], devices=1)
    # EMA warm-up lowers the decay of the first step from 0.75 to 0.1.
    np.testing.assert_allclose(state.ema["w"], 0.9 * state.params["w"], rtol=1e-6)
    assert state.eval_params is state.ema


def test_randomness_is_a_function_of_seed_and_purpose():
    keys = {
        tuple(jax.random.key_data(purpose_key(seed, purpose)).tolist())
        for seed in (0, 1)
        for purpose in ("dropout", "weights")
    }
    assert len(keys) == 4
    assert jnp.array_equal(purpose_key(3, "dropout"), purpose_key(3, "dropout"))


def test_batch_sizes_that_devices_and_micro_batches_do_not_divide_are_refused():
    mesh, config = make_mesh(jax.devices()[:8]), toy_config(accumulation=2)
    config.data.batch_size = 32
    devices.check_rows(mesh, config)
    config.data.batch_size = 24
    with pytest.raises(UserError, match=r"8 devices × train\.accumulation=2 .*batch_size=24: set"):
        devices.check_rows(mesh, config)
    config.data.update({"batch_unit": "tokens", "batch_size": 4096})
    with pytest.raises(UserError, match=r"batch_multiple=8: set it to a multiple of 16"):
        devices.check_rows(mesh, config)
