import jax.numpy as jnp
import optax
import pytest

from errors import UserError
from tests.toy import Line, toy_config
from training.checkpoints import Checkpoints
from training.optimizers import make_optimizer
from training.state import create_state


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


def test_an_average_is_of_the_latest_kept(saved, mesh):
    checkpoints = Checkpoints(saved, keep=2, read_only=True)
    assert checkpoints.find("average") == [4, 5]  # the best, 2, is older
    params = checkpoints.restore_params(Line(), toy_config(), mesh, [4, 5])
    assert params["w"] == 4.5
