import contextlib
import gc
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from errors import UserError
from tests.toy import Line, toy_config
from training.checkpoints import Checkpoints, Damaged, bits
from training.devices import divided, make_mesh
from training.optimizers import make_optimizer
from training.state import create_state

# Of what tensorstore still tells loops that have ended, after damage, nothing is missed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def swept():
    """What is left of a failed read must not be found during a later test."""
    yield
    gc.collect()


def state_at(step, w):
    params = Line().init(None)
    optimizer = make_optimizer(toy_config().optimizer, optax.constant_schedule(0.1))
    state = create_state(params, optimizer, ema=False)
    return state.replace(step=jnp.int32(step), params=params | {"w": jnp.float32(w)})


@pytest.fixture
def saved(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step, score in ((1, 0.5), (2, 0.9), (3, 0.1), (4, None), (5, 0.2)):
        checkpoints.save(state_at(step, w=step), {"best": score}, score)
    checkpoints.close()
    return tmp_path


def test_the_latest_and_the_best_are_kept(saved):
    folder = saved / "checkpoints"
    assert sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) == [2, 4, 5]
    checkpoints = Checkpoints(saved, read_only=True)
    assert [checkpoints.find(which) for which in ("best", "last", "4")] == [[2], [5], [4]]
    state, progress = checkpoints.restore(state_at(0, 0), 2)
    assert (state.params["w"], progress) == (2, {"best": 0.9})


def test_an_unknown_checkpoint_lists_the_known(saved):
    with pytest.raises(UserError, match="'3': it can be best, last, average, 2, 4, 5"):
        Checkpoints(saved, read_only=True).find("3")


def test_no_checkpoints_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="has no checkpoints: train first"):
        Checkpoints(tmp_path, read_only=True)


def test_parameters_alone(saved, mesh):
    config = toy_config()
    params = Checkpoints(saved, read_only=True).restore_params(Line(), config, mesh, [5])
    assert params["w"] == 5


def test_an_average_leaves_out_what_a_signal_left_between_evaluations(tmp_path):
    """It is the same as of a run that was never stopped."""
    with contextlib.closing(Checkpoints(tmp_path, keep=3, every=10)) as checkpoints:
        for step in (10, 20, 23, 30, 37, 40, 45):
            checkpoints.save(state_at(step, w=step), {"done": step == 45}, None)
    checkpoints = Checkpoints(tmp_path, keep=3, every=10, read_only=True)
    assert checkpoints.find("average") == [30, 40, 45] and checkpoints.find("last") == [45]

    with contextlib.closing(Checkpoints(tmp_path / "stopped", keep=3, every=10)) as checkpoints:
        for step in (10, 20, 30, 33):
            checkpoints.save(state_at(step, w=step), {"done": False}, None)
        assert checkpoints.find("average") == [10, 20, 30] and checkpoints.find("last") == [33]


def test_an_average_is_of_the_latest_kept(saved, mesh):
    checkpoints = Checkpoints(saved, keep=2, read_only=True)
    assert checkpoints.find("average") == [4, 5]  # the best, 2, is older
    params = checkpoints.restore_params(Line(), toy_config(), mesh, [4, 5])
    assert params["w"] == 4.5


# What happens to files: bits that turn, the rest of a file or all of it lost, other content.
DAMAGES = {
    "a bit": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 16]) + data[len(data) // 2 + 1 :]
    ),
    "cut": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "gone": None,
}


def damage(path, how):
    data = path.read_bytes()
    if DAMAGES[how] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[how](data))
    return data


def files_of(workdir, step):
    return sorted(p for p in (workdir / "checkpoints" / str(step)).rglob("*") if p.is_file())


@pytest.mark.parametrize("how", sorted(DAMAGES))
def test_a_damaged_file_never_gives_other_numbers(tmp_path, how):
    state = state_at(1, w=np.pi)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state, {"best": 1.0}, 0.5)
    checkpoints.close()
    found = {"whole": 0, "damaged": 0}
    for path in files_of(tmp_path, 1):
        if not path.stat().st_size:
            continue
        data = damage(path, how)
        try:
            with contextlib.closing(Checkpoints(tmp_path, read_only=True)) as checkpoints:
                restored, progress = checkpoints.restore(state, 1)
            jax.tree.map(np.testing.assert_array_equal, restored, state)
            assert progress == {"best": 1.0}
            found["whole"] += 1  # nobody needs that file
        except Damaged as error:
            assert "the checkpoint of step 1" in str(error) and "is damaged" in str(error)
            found["damaged"] += 1
        path.write_bytes(data)
    assert found["damaged"] >= 3


def test_numbers_of_another_order_or_place_have_other_bits():
    x = jnp.arange(4.0)
    several = [{"a": x, "b": x[::-1]}, {"a": x[::-1], "b": x}, {"a": -x, "b": x[::-1]}]
    assert len({int(bits(tree)) for tree in several}) == 3


def test_bits_are_the_same_on_any_number_of_devices():
    x = jax.random.normal(jax.random.key(0), (64, 128))
    meshes = [make_mesh(jax.devices()[:n], fsdp) for n, fsdp in ((1, 1), (8, 8), (8, 2))]
    assert len({int(bits(jax.device_put(x, divided(mesh, x)))) for mesh in meshes}) == 1


def largest_file(workdir, step):
    return max(files_of(workdir, step), key=lambda path: path.stat().st_size)


def test_a_damaged_newest_is_named_and_put_aside_and_the_one_before_is_used(saved, caplog):
    for path in files_of(saved, 5):
        if path.stat().st_size:
            damage(path, "a bit")
    checkpoints = Checkpoints(saved, keep=2)
    state, progress = checkpoints.restore_latest(state_at(0, 0))
    assert (state.params["w"], progress) == (4, {"best": None})
    assert "the checkpoint of step 5" in caplog.text and "put aside as" in caplog.text
    assert (saved / "checkpoints" / "damaged-5").is_dir() and checkpoints.latest == 4
    checkpoints.save(state_at(5, w=5), {"best": 1.0}, 0.2)  # its place is free
    checkpoints.close()
    assert Checkpoints(saved, read_only=True).find("last") == [5]


@pytest.mark.parametrize("item", ["progress", "metrics"])
def test_where_all_are_damaged_nothing_begins_anew_by_itself(tmp_path, item):
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        for step in (1, 2):
            checkpoints.save(state_at(step, w=step), {}, step)
    for step in (1, 2):
        (path,) = (tmp_path / "checkpoints" / str(step) / item).glob("met*")
        damage(path, "cut")
    for _ in range(2):  # the second time they are aside already
        with pytest.raises(UserError, match=r"no checkpoint in .* can be read: take another"):
            Checkpoints(tmp_path).restore_latest(state_at(0, 0))


def test_by_default_there_is_one_before_the_newest(tmp_path):
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(state_at(step, w=step), {}, step)  # each the best so far
    for _ in range(2):  # and again, at the same step
        damage(largest_file(tmp_path, 3), "cut")
        with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
            assert checkpoints.restore_latest(state_at(0, 0))[0].step == 2
            checkpoints.save(state_at(3, w=3), {}, 4.0)
    folders = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert folders == ["2", "3", "damaged-3", "damaged-3-2"]


@pytest.mark.parametrize("read_only", [False, True])
def test_what_a_killed_run_was_writing_is_no_checkpoint(saved, read_only):
    half = saved / "checkpoints" / "6.orbax-checkpoint-tmp" / "metrics"
    half.mkdir(parents=True)
    (half / "metrics").write_text('{"sco')
    checkpoints = Checkpoints(saved, read_only=read_only)
    assert checkpoints.latest == 5
    for _ in range(100 * (not read_only)):  # cleared away in the background, by those who write
        if not half.exists():
            break
        time.sleep(0.05)
    assert half.exists() == read_only
    checkpoints.close()


def test_a_checkpoint_of_another_model_is_not_taken_for_damaged(saved):
    other = state_at(0, 0)
    other = other.replace(params=other.params | {"c": jnp.zeros(3)})
    with pytest.raises(UserError, match="does not fit this model") as caught:
        Checkpoints(saved, keep=2).restore_latest(other)
    assert not isinstance(caught.value, Damaged)
    assert (saved / "checkpoints" / "5").is_dir()


def test_a_devices_own_error_is_no_damage(saved, monkeypatch):
    """One whose memory another program has, say: all checkpoints stay where they are."""

    def fails(state):
        raise jax.errors.JaxRuntimeError("INTERNAL: Failed to initialize BLASLT support")

    monkeypatch.setattr("training.checkpoints.bits", fails)
    with pytest.raises(jax.errors.JaxRuntimeError):
        Checkpoints(saved, keep=2).restore_latest(state_at(0, 0))
    assert (saved / "checkpoints" / "5").is_dir()
