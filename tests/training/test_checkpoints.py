import contextlib
import gc
import shutil
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from errors import UserError
from tests.programs import ENVIRONMENT, ROOT
from tests.saved import committed, uncommitted
from tests.toy import Line, toy_config
from training.checkpoints import Checkpoints, CorruptCheckpoint
from training.checksums import checksum, structure
from training.devices import make_mesh, state_sharding
from training.optimizers import make_optimizer
from training.state import Progress, create_state

# After a failed read, TensorStore may send results to an event loop that is closed already. The
# exceptions are raised in destructors, and pytest would report them as warnings.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def collect_garbage():
    """Delete the objects of failed reads now, so that none raises an error during a later test."""
    yield
    gc.collect()


def state_at(step, w):
    params = Line().init(None)
    optimizer = make_optimizer(toy_config().optimizer, optax.constant_schedule(0.1))
    state = create_state(params, optimizer, ema=False)
    return state.replace(step=jnp.int32(step), params=params | {"w": jnp.float32(w)})


def save(workdir, steps, best=None, **options):
    """Save one checkpoint per training step; the step number is the value of its parameter w.

    `best` maps each step to the best step so far (default: the step itself).
    """
    with contextlib.closing(Checkpoints(workdir, **options)) as checkpoints:
        for step in steps:
            progress = Progress(best_step=(best or {}).get(step, step), count=float(step))
            checkpoints.save(state_at(step, w=step), progress)


@pytest.fixture
def saved(tmp_path):
    save(tmp_path, [1, 2, 3, 4, 5], best={1: 1, 2: 2, 3: 2, 4: 2, 5: 2}, keep=2)
    return tmp_path


def restored(workdir, step):
    with contextlib.closing(Checkpoints(workdir, read_only=True)) as checkpoints:
        return checkpoints.restore(state_at(0, 0), step)


def test_the_latest_and_the_best_checkpoints_are_kept(saved):
    assert list(committed(saved)) == [2, 4, 5]
    checkpoints = Checkpoints(saved, read_only=True)
    assert [checkpoints.find(which) for which in ("best", "last", "4")] == [[2], [5], [4]]
    state, progress = checkpoints.restore(state_at(0, 0), 2)
    assert (state.params["w"], progress) == (2, Progress(best_step=2, count=2.0))


def test_a_resumed_run_keeps_the_best_checkpoint(saved):
    with contextlib.closing(Checkpoints(saved)) as checkpoints:
        _, progress = checkpoints.restore_latest(state_at(0, 0))
        for step in (6, 7):
            checkpoints.save(state_at(step, w=step), progress)
    assert list(committed(saved)) == [2, 6, 7]
    assert Checkpoints(saved, read_only=True).find("best") == [2]


def test_before_the_first_evaluation_the_latest_checkpoint_is_the_best(tmp_path):
    save(tmp_path, [3, 4], best={3: None, 4: None})
    assert Checkpoints(tmp_path, read_only=True).find("best") == [4]


def test_a_missing_best_checkpoint_is_reported(tmp_path, caplog):
    save(tmp_path, [3, 4], best={3: 1, 4: 1})
    assert Checkpoints(tmp_path, read_only=True).find("best") == [4]
    assert "best checkpoint (step 1) is missing" in caplog.text


def test_an_unknown_checkpoint_name_lists_the_available_ones(saved):
    with pytest.raises(UserError, match=r"'3'.*best, last, average or one of .* 2, 4, 5"):
        Checkpoints(saved, read_only=True).find("3")


def test_a_workdir_without_checkpoints_is_refused(tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path} has no checkpoints"):
        Checkpoints(tmp_path, read_only=True)


def test_parameters_are_restored_without_the_optimizer_state(saved, mesh, monkeypatch):
    """Only the parameters are read and compared with their checksum."""
    checked = []
    monkeypatch.setattr(
        "training.checkpoints.checksum", lambda tree: checked.append(tree) or checksum(tree)
    )
    config = toy_config()
    params = Checkpoints(saved, read_only=True).restore_params(Line(), config, mesh, [5])
    assert params["w"] == 5
    assert checked == [params]


def test_the_averaged_parameters_are_restored_if_the_run_has_them(tmp_path, mesh):
    state = state_at(1, w=1)
    state = state.replace(ema=state.params | {"w": jnp.float32(0.5)})
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(state, Progress())
    checkpoints = Checkpoints(tmp_path, read_only=True)
    params = checkpoints.restore_params(Line(), toy_config(ema=0.9), mesh, [1])
    assert params["w"] == 0.5


def test_an_average_excludes_checkpoints_saved_at_a_signal(tmp_path):
    """The averaged parameters must be the same as in a run that was never stopped."""
    with contextlib.closing(Checkpoints(tmp_path, keep=3, every=10)) as checkpoints:
        for step in (10, 20, 23, 30, 37, 40, 45):
            checkpoints.save(state_at(step, w=step), Progress(done=step == 45))
    checkpoints = Checkpoints(tmp_path, keep=3, every=10, read_only=True)
    assert checkpoints.find("average") == [30, 40, 45] and checkpoints.find("last") == [45]

    stopped = tmp_path / "stopped"
    save(stopped, (10, 20, 30, 33), keep=3, every=10)
    checkpoints = Checkpoints(stopped, keep=3, every=10, read_only=True)
    assert checkpoints.find("average") == [10, 20, 30] and checkpoints.find("last") == [33]


def test_an_average_uses_the_latest_kept_checkpoints(saved, mesh):
    checkpoints = Checkpoints(saved, keep=2, read_only=True)
    # Step 2 is kept as the best step, but it is not one of the last two checkpoints.
    assert checkpoints.find("average") == [4, 5]
    params = checkpoints.restore_params(Line(), toy_config(), mesh, [4, 5])
    assert params["w"] == 4.5


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 16]) + data[middle + 1 :]


DAMAGES = {
    "bit flipped": flipped,
    "halved": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "removed": None,
}


def damage(path, how):
    data = path.read_bytes()
    if DAMAGES[how] is None:
        path.unlink()
    else:
        path.write_bytes(DAMAGES[how](data))
    return data


def files_of(workdir, step):
    """Return the non-empty files of a checkpoint."""
    files = [path for path in committed(workdir)[step].rglob("*") if path.is_file()]
    return sorted(path for path in files if path.stat().st_size)


@pytest.mark.parametrize("how", sorted(DAMAGES))
def test_a_damaged_file_is_detected_or_harmless(tmp_path, how):
    state, progress = state_at(1, w=np.pi), Progress(best_step=1, best_score=0.5)
    with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
        checkpoints.save(state, progress)
    corrupt = 0
    for path in files_of(tmp_path, 1):
        data = damage(path, how)
        try:
            found = restored(tmp_path, 1)
            jax.tree.map(np.testing.assert_array_equal, found, (state, progress))
        except CorruptCheckpoint as error:
            assert "step 1 " in str(error) and str(tmp_path) in str(error)
            corrupt += 1
        path.write_bytes(data)
    assert corrupt >= 3
    jax.tree.map(np.testing.assert_array_equal, restored(tmp_path, 1)[0], state)


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=[pytest.mark.slow] * (how != "halved")) for how in sorted(DAMAGES)],
)
def test_a_run_resumes_if_any_file_of_the_newest_checkpoint_is_damaged(tmp_path, how):
    """The newest checkpoint is restored, or it is quarantined and the previous one restored."""
    original = tmp_path / "original"
    save(original, [1, 2])
    quarantined = 0
    for i, path in enumerate(files_of(original, 2)):
        workdir = tmp_path / str(i)
        shutil.copytree(original, workdir)
        damage(workdir / path.relative_to(original), how)
        with contextlib.closing(Checkpoints(workdir)) as checkpoints:
            state, progress = checkpoints.restore_latest(state_at(0, 0))
        step = int(state.step)
        assert progress == Progress(best_step=step, count=float(step))
        assert state.params["w"] == step == max(committed(workdir))
        assert (workdir / "quarantine" / "step-2").exists() == (step == 1)
        quarantined += step == 1
    assert quarantined >= 3


def test_metadata_with_wrong_types_are_deleted_or_reported(saved, caplog):
    """Orbax fails to open a folder if the metadata of one checkpoint are not an object."""
    path = saved / "checkpoints" / "5" / "_CHECKPOINT_METADATA"
    path.write_text("[]")
    with pytest.raises(UserError, match="_CHECKPOINT_METADATA is corrupt"):
        Checkpoints(saved, read_only=True)
    assert Checkpoints(saved).latest == 5 and not path.exists()
    assert "deleting corrupt metadata" in caplog.text


def test_checksums_depend_on_order_position_and_sign():
    x = jnp.arange(4.0)
    several = [{"a": x, "b": x[::-1]}, {"a": x[::-1], "b": x}, {"a": -x, "b": x[::-1]}]
    assert len({checksum(tree) for tree in several}) == 3


def test_the_structure_digest_depends_on_names_shapes_and_dtypes():
    x = jnp.arange(4.0)
    trees = [{"a": x}, {"b": x}, {"a": x[:2]}, {"a": x.astype(jnp.int32)}]
    assert len(set(map(structure, trees))) == 4
    assert structure({"a": x}) == structure({"a": -x})


def test_checksums_are_the_same_on_any_number_of_devices():
    x = jax.random.normal(jax.random.key(0), (64, 128))
    meshes = [make_mesh(jax.devices()[:n], shards) for n, shards in ((1, 1), (8, 8), (8, 2))]
    sums = {checksum(jax.device_put(x, state_sharding(mesh, x))) for mesh in meshes}
    assert len(sums) == 1


def test_a_corrupt_newest_checkpoint_is_quarantined_and_the_previous_one_used(saved, caplog):
    for path in files_of(saved, 5):
        damage(path, "bit flipped")
    checkpoints = Checkpoints(saved, keep=2)
    state, progress = checkpoints.restore_latest(state_at(0, 0))
    assert (state.params["w"], progress.count) == (4, 4)
    assert "the checkpoint of step 5" in caplog.text and "quarantine" in caplog.text
    assert (saved / "quarantine" / "step-5").is_dir() and checkpoints.latest == 4
    checkpoints.save(state_at(5, w=5), Progress())  # the quarantined step 5 can be saved again
    checkpoints.close()
    assert Checkpoints(saved, read_only=True).find("last") == [5]


def test_the_best_step_is_read_from_the_newest_intact_record(tmp_path, caplog):
    save(tmp_path, [1, 2, 3], best={1: 1, 2: 1, 3: 3})
    assert list(committed(tmp_path)) == [2, 3]
    save(tmp_path / "b", [1, 2, 3], best={1: 1, 2: 1, 3: 1})
    for path in files_of(tmp_path / "b", 3):
        damage(path, "halved")
    assert Checkpoints(tmp_path / "b", read_only=True).find("best") == [1]
    assert "the checkpoint of step 3" in caplog.text


def test_the_latest_checkpoint_of_a_run_that_was_never_evaluated(tmp_path, caplog):
    save(tmp_path, [1, 2], best={1: None, 2: None})
    assert Checkpoints(tmp_path, read_only=True).find("best") == [2]
    assert "no checkpoint has been evaluated yet: using the latest, of step 2" in caplog.text


def test_a_run_does_not_restart_if_all_checkpoints_are_corrupt(tmp_path):
    save(tmp_path, [1, 2])
    for step in (1, 2):
        for path in files_of(tmp_path, step):
            damage(path, "halved")
    for _ in range(2):  # repeat, because the first call moves both to quarantine
        with pytest.raises(UserError, match=f"all checkpoints of {tmp_path}.* are corrupt"):
            Checkpoints(tmp_path).restore_latest(state_at(0, 0))


def test_one_step_can_be_quarantined_twice(tmp_path):
    save(tmp_path, [1, 2, 3])
    for _ in range(2):
        for path in files_of(tmp_path, 3):
            damage(path, "halved")
        with contextlib.closing(Checkpoints(tmp_path)) as checkpoints:
            assert checkpoints.restore_latest(state_at(0, 0))[0].step == 2
            checkpoints.save(state_at(3, w=3), Progress(best_step=3))
    assert list(committed(tmp_path)) == [2, 3]
    folders = sorted(path.name for path in (tmp_path / "quarantine").iterdir())
    assert folders == ["step-3", "step-3-2"]


# A program that saves step 5 and kills itself before Orbax commits step 6 by a rename.
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.saved import uncommitted
from tests.training.test_checkpoints import save

def rename(*arguments, **options):
    if uncommitted(workdir):
        os.kill(os.getpid(), signal.SIGKILL)

workdir = Path(sys.argv[1])
save(workdir, [5])
os.rename = os.replace = rename
save(workdir, [6])
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The workdir of a process that was killed while it saved its second checkpoint."""
    workdir = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", KILLED, str(workdir)]
    process = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert process.returncode == -signal.SIGKILL, process.stderr
    return workdir


@pytest.mark.parametrize("read_only", [False, True])
def test_a_partially_written_checkpoint_is_ignored(killed, tmp_path, read_only):
    shutil.copytree(killed, tmp_path, dirs_exist_ok=True)
    assert uncommitted(tmp_path) and list(committed(tmp_path)) == [5]
    checkpoints = Checkpoints(tmp_path, read_only=read_only)
    assert checkpoints.latest == 5
    # Wait up to 5 seconds: after it opens the folder, Orbax deletes the partial checkpoint in a
    # background thread. With read_only, Orbax deletes nothing, so there is nothing to wait for.
    for _ in range(100 * (not read_only)):
        if not uncommitted(tmp_path):
            break
        time.sleep(0.05)
    assert bool(uncommitted(tmp_path)) == read_only
    checkpoints.close()


def test_a_checkpoint_of_another_model_is_not_reported_as_corrupt(saved):
    other = state_at(0, 0)
    other = other.replace(params=other.params | {"c": jnp.zeros(3)})
    with pytest.raises(UserError, match="does not fit this model") as caught:
        Checkpoints(saved, keep=2).restore_latest(other)
    assert not isinstance(caught.value, CorruptCheckpoint)
    assert list(committed(saved)) == [2, 4, 5]


def test_a_device_error_is_not_reported_as_a_corrupt_checkpoint(saved, monkeypatch):
    """Checkpoints are not quarantined if, for example, another program uses all device memory."""

    def fails(state):
        raise jax.errors.JaxRuntimeError("INTERNAL: Failed to initialize BLASLT support")

    monkeypatch.setattr("training.checkpoints.checksum", fails)
    with pytest.raises(jax.errors.JaxRuntimeError):
        Checkpoints(saved, keep=2).restore_latest(state_at(0, 0))
    assert list(committed(saved)) == [2, 4, 5]


def test_a_checkpoint_without_arrays_is_an_error(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(state_at(1, w=1), Progress())
    checkpoints._manager.wait_until_finished()
    (tmp_path / "checkpoints" / "1" / "state" / "manifest.ocdbt").unlink()
    with pytest.raises(UserError, match=r"could not be written .*it has no arrays"):
        checkpoints.close()
