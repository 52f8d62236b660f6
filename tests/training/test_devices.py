"""The JAX devices into which training divides a CPU."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from configs import luong2015
from training import devices
from training.devices import AHEAD, divide_cpu, fetched


@pytest.fixture
def updates(monkeypatch):
    """Return the updates of JAX's settings, of which none take effect, on two cores."""
    updates = {}
    monkeypatch.setattr(jax.config, "update", updates.__setitem__)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setenv("XLA_FLAGS", "")
    return updates


def config(**changes):
    config = luong2015.get_config("data=dates").unlock()
    config.update_from_flattened_dict({k.replace("__", "."): x for k, x in changes.items()})
    return config


def test_training_divides_a_cpu_into_two_devices(updates):
    divide_cpu(config())
    assert updates == {"jax_num_cpu_devices": 2}


def test_the_number_of_devices_can_be_chosen(updates, monkeypatch):
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    divide_cpu(config())
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
    divide_cpu(config())
    assert not updates


def test_one_core_is_one_device(updates, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3}, raising=False)
    divide_cpu(config())
    assert not updates


def test_processes_of_multi_host_runs_have_one_device(updates, monkeypatch):
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    divide_cpu(config())
    assert not updates


@pytest.mark.parametrize(
    ("batch_size", "unit", "multiple", "accumulation", "devices"),
    [
        (64, "sentences", 8, 1, 2),
        (64, "sentences", 8, 8, 2),  # 4 + 4 rows per micro-batch
        (63, "sentences", 1, 1, 1),  # an odd number of rows in training
        (64, "sentences", 1, 1, 1),  # validation batches can have an odd number of rows
        (4096, "tokens", 8, 4, 2),
        (4096, "tokens", 8, 8, 1),
    ],
)
def test_only_rows_that_can_be_halved_are_divided(
    updates, batch_size, unit, multiple, accumulation, devices
):
    divided = config(
        data__batch_size=batch_size, data__batch_unit=unit,
        data__batch_multiple=multiple, train__accumulation=accumulation,
    )  # fmt: skip
    divide_cpu(divided)
    assert updates.get("jax_num_cpu_devices", 1) == devices


@pytest.mark.parametrize("ahead", [1, AHEAD])
def test_at_most_some_programs_are_dispatched_before_the_oldest_is_fetched(ahead):
    dispatched = []

    def results():
        for number in range(40):
            dispatched.append(number)
            yield {"n": jax.numpy.asarray(number)}

    found = []
    for result in fetched(results(), ahead):
        assert isinstance(result["n"], np.ndarray)
        found.append((int(result["n"]), len(dispatched)))
    assert found == [(number, min(number + 1 + ahead, 40)) for number in range(40)]
    assert not [*fetched(iter(()))]


def test_xla_knows_the_options_for_gpus():
    """XLA reads them on every platform, and rejects unknown names and values."""
    options = devices.GPU_OPTIONS | devices.CONCURRENT_OPTIONS
    assert jax.jit(lambda x: x + 1, compiler_options=options)(1) == 2
    with pytest.raises(Exception, match="valid enum value"):
        jax.jit(lambda x: x + 1, compiler_options=dict.fromkeys(devices.CONCURRENT_OPTIONS, "?"))(1)


class Program:
    """A program that has not been compiled; `compiling` is called while it is compiled."""

    def __init__(self, text, compiling):
        self.text, self.compile = text, compiling

    def as_text(self):
        return self.text


@pytest.fixture
def cache(tmp_path):
    """The folder of the compilation cache, which does not exist yet."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    jax.config.update("jax_compilation_cache_dir", before)


def compile_in_threads(compiling, *texts):
    with ThreadPoolExecutor() as pool:
        return list(pool.map(devices._compile, [Program(text, compiling) for text in texts]))


def test_a_program_waits_while_an_equal_one_is_compiled(cache):
    running = threading.Lock()

    def compiling():
        assert running.acquire(blocking=False), "two equal programs are compiled at the same time"
        time.sleep(0.2)
        running.release()

    compile_in_threads(compiling, "same", "same", "same")


def test_different_programs_are_compiled_at_the_same_time(cache):
    compile_in_threads(threading.Barrier(2, timeout=60).wait, "one", "another")


def test_programs_are_compiled_if_the_cache_cannot_be_written(cache):
    cache.write_text("a file instead of a folder")
    assert compile_in_threads(lambda: "compiled", "same") == ["compiled"]
